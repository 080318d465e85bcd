"""The fix for Higress #4396, as rules: a retry keeps the API identity of its request.

The helper that rebuilds a request takes the API name as an argument, and forwards it to the header
transform and to each branch of the body transform's dispatch. A retry passes the API name it was
given; the generated health check passes Chat Completions, which it means to probe.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ast_grep_py import Rule as Match
from ast_grep_py import SgNode

from wasm.foundation.errors import MisfitError
from wasm.golang.codemod import (
    DIFFERS,
    GoFile,
    Rewrite,
    Rule,
    apply,
    assigned,
    call,
    declared_inside,
    inside,
    line_of,
    method,
    read_package,
    types_of,
)

FIX_ID = "higress-4396"

PACKAGE = "provider"
FAILOVER = "provider/failover.go"
RETRY = "provider/retry.go"

HELPER = "transformRequestHeadersAndBody"
RETRY_CALLER = "sendRetryRequest"
HEALTH_CHECK_CALLER = "SetApiTokensFailover"
CALLERS = {RETRY: RETRY_CALLER, FAILOVER: HEALTH_CHECK_CALLER}
"""The methods that call the helper, by the file they are in."""

API_NAME = "ApiName"
CHAT = "ApiNameChatCompletion"
ARGUMENT = "apiName"
"""The type, the constant that the defect passes, and what the fix calls the helper's argument."""

HELPER_RECEIVER = "*ProviderConfig"
HELPER_TAKES = ("wrapper.HttpContext", "Provider", "[][2]string", "[]byte")
HELPER_RETURNS = ("http.Header", "[]byte", "error")
"""The helper's types before the fix; names and statements may be any."""

HELPER_DECLARATION = method(
    HELPER,
    {
        "has": {
            "field": "parameters",
            "has": {
                "kind": "parameter_declaration",
                "all": [
                    {"has": {"field": "type", "regex": "^Provider$"}},
                    {"pattern": "$PROVIDER"},
                ],
            },
        },
    },
)
HELPER_CALL = call(f"$C.{HELPER}($CTX, $PROVIDER, $HEADERS, $BODY)")
TAKES_API: Match = {
    "has": {
        "field": "parameters",
        "has": {
            "kind": "parameter_declaration",
            "all": [
                {"has": {"field": "type", "regex": f"^{API_NAME}$"}},
                {"has": {"field": "name", "pattern": "$API"}},
            ],
        },
    },
}
"""A method with a parameter ``$API`` of the type."""


def forwarding(rule_id: str, code: str) -> Rule:
    """Make the rule for one call in the helper, which passes Chat Completions as ``$API``."""
    callee = code.partition("(")[0].partition(".")[2]
    return Rule(
        id=rule_id,
        says=f"The helper forwards the API name to {callee}.",
        file=FAILOVER,
        where={
            "rule": {"all": [call(code), inside(method(HELPER))]},
            "constraints": {"API": {"regex": f"^{CHAT}$"}},
        },
        rewrite={"API": ARGUMENT},
        places=1,
    )


FORWARDING = (
    forwarding(
        "forward-to-header-transform",
        "$HANDLER.TransformRequestHeaders($CTX, $API, $HEADERS)",
    ),
    forwarding(
        "forward-to-body-transform",
        "$HANDLER.TransformRequestBody($CTX, $API, $BODY)",
    ),
    forwarding(
        "forward-to-body-headers-transform",
        "$HANDLER.TransformRequestBodyHeaders($CTX, $API, $BODY, $HEADERS)",
    ),
    forwarding(
        "forward-to-default-transform",
        "$C.defaultTransformRequestBody($CTX, $API, $BODY)",
    ),
)

RULES = (
    Rule(
        id="helper-takes-api-name",
        says="The helper takes the API name as an argument, after the active provider.",
        file=FAILOVER,
        where={"rule": HELPER_DECLARATION},
        rewrite={"PROVIDER": f"$PROVIDER, {ARGUMENT} {API_NAME}"},
        places=1,
    ),
    *FORWARDING,
    Rule(
        id="retry-passes-its-api-name",
        says="A retry passes the API name it was given.",
        file=RETRY,
        where={"rule": {"all": [HELPER_CALL, inside(method(RETRY_CALLER, TAKES_API))]}},
        rewrite={"PROVIDER": "$PROVIDER, $API"},
        places=1,
    ),
    Rule(
        id="health-check-passes-chat-completions",
        says="The generated health check passes Chat Completions.",
        file=FAILOVER,
        where={"rule": {"all": [HELPER_CALL, inside(method(HEALTH_CHECK_CALLER))]}},
        rewrite={"PROVIDER": f"$PROVIDER, {CHAT}"},
        places=1,
    ),
)


_GENERATED = re.compile(r"// Code generated .* DO NOT EDIT\.\r?$")


def fix(folder: Path, rules: Sequence[Rule] = RULES) -> Rewrite:
    """Fix the plugin in a folder, in memory; with other rules, make a mutant of the fix.

    Raises:
        SourceError: The folder holds no Go of the plugin's.
        MisfitError: The plugin does not have the defect in the shape that the fix knows.
    """
    tree = read_package(folder, PACKAGE)
    check(tree)
    return apply(rules, tree)


def check(tree: Mapping[str, bytes]) -> None:
    """Check that a tree has the defect, and that the fix would reach all of it.

    Raises:
        MisfitError: It does not.
    """
    failover, retry = GoFile.parse(FAILOVER, tree), GoFile.parse(RETRY, tree)
    naming = [GoFile.parse(path, tree) for path in sorted(tree) if HELPER.encode() in tree[path]]
    helper = _declared_helper(naming)
    _check_signature(failover, helper)
    _check_chat(failover, helper)
    _check_retry(retry)
    _check_health_check(failover)
    _check_callers(naming)
    _check_by_hand(failover)
    _check_by_hand(retry)


def _declared_helper(naming: Sequence[GoFile]) -> SgNode:
    """Find the declaration of the helper; there must be one, in its own file."""
    found = [(file, node) for file in naming for node in file.root.find_all(**method(HELPER))]
    if not found:
        raise MisfitError(
            f"{FAILOVER} declares no method {HELPER}, expected the helper of #4396",
            advice=DIFFERS,
        )
    if [file.path for file, _ in found] != [FAILOVER]:
        places = " and ".join(file.at(node) for file, node in found)
        raise MisfitError(
            f"{places} declares {HELPER}, expected {FAILOVER} to declare it, once",
            advice=DIFFERS,
        )
    return found[0][1]


def _check_signature(failover: GoFile, helper: SgNode) -> None:
    """Check that the helper takes what the defective one takes, no API name above all."""
    if any(_is_api_name(parameter) for parameter in _parameters(helper)):
        raise MisfitError(
            f"{failover.at(helper)} already carries the fix for #4396, {HELPER} takes an "
            f"{API_NAME}",
            advice="use --baseline-ref and --fixed-ref to compare two commits",
        )
    declared = [types_of(helper.field(field)) for field in ("receiver", "parameters", "result")]
    if declared != [[HELPER_RECEIVER], [*HELPER_TAKES], [*HELPER_RETURNS]]:
        body = helper.field("body")
        found = helper.text().removesuffix(body.text() if body else "")
        raise MisfitError(
            f"{failover.at(helper)} declares {found.strip()}, expected func ({HELPER_RECEIVER}) "
            f"{HELPER}({', '.join(HELPER_TAKES)}) ({', '.join(HELPER_RETURNS)})",
            advice=DIFFERS,
        )


def _check_chat(failover: GoFile, helper: SgNode) -> None:
    """Check that the helper names Chat Completions as often as is known, and no ``apiName``."""
    chat = helper.find_all(kind="identifier", regex=f"^{CHAT}$")
    if len(chat) != len(FORWARDING):
        lines = ", ".join(str(line_of(node)) for node in chat) or "none"
        raise MisfitError(
            f"{failover.at(helper)} {HELPER} names {CHAT} {len(chat)} times (lines: {lines}), "
            f"expected {len(FORWARDING)}",
            advice=DIFFERS,
        )
    if taken := helper.find(kind="identifier", regex=f"^{ARGUMENT}$"):
        raise MisfitError(
            f"{failover.at(taken)} {HELPER} already uses the name {ARGUMENT}, expected it to be "
            "free for the new argument",
            advice=DIFFERS,
        )


def _check_retry(retry: GoFile) -> None:
    """Check that the retry has one API name to pass on, which means the same where it calls."""
    caller = retry.root.find(**method(RETRY_CALLER))
    if caller is None:
        raise MisfitError(f"{RETRY} declares no method {RETRY_CALLER}", advice=DIFFERS)
    names = [
        name.text()
        for parameter in _parameters(caller)
        if parameter.kind() == "parameter_declaration" and _is_api_name(parameter)
        for name in parameter.field_children("name")
        if name.text() != "_"
    ]
    if len(names) != 1:
        raise MisfitError(
            f"{retry.at(caller)} {RETRY_CALLER} has {len(names)} parameters of type {API_NAME}, "
            f"expected one, to be passed to {HELPER}",
            advice=DIFFERS,
        )
    if again := caller.find(declared_inside(names[0])):
        raise MisfitError(
            f"{retry.at(again)} declares {names[0]} again inside {RETRY_CALLER}, expected it to "
            "be the parameter throughout",
            advice=DIFFERS,
        )
    if other := caller.find(**assigned(names[0])):
        raise MisfitError(
            f"{retry.at(other)} sets {names[0]} inside {RETRY_CALLER}, expected it to be what "
            f"{RETRY_CALLER} was given throughout",
            advice=DIFFERS,
        )


def _check_health_check(failover: GoFile) -> None:
    """Check that Chat Completions means the constant where the health check is made."""
    caller = failover.root.find(**method(HEALTH_CHECK_CALLER))
    if caller and (again := caller.find(declared_inside(CHAT))):
        raise MisfitError(
            f"{failover.at(again)} declares {CHAT} again inside {HEALTH_CHECK_CALLER}, expected "
            "it to be the package's constant throughout",
            advice=DIFFERS,
        )


def _check_by_hand(file: GoFile) -> None:
    """Check that no generator would undo the change of a file (`go help generate`)."""
    for node in file.root.children():
        if node.kind() == "package_clause":
            return
        if node.kind() == "comment" and _GENERATED.match(node.text()):
            raise MisfitError(
                f"{file.at(node)} says that the file is generated, expected one written by hand, "
                "for its generator would undo the fix",
                advice="change what it is generated from, and give the fix by --fixed-ref or "
                "--fixed-patch",
            )


def _check_callers(naming: Sequence[GoFile]) -> None:
    """Check that nothing but the two known callers uses the helper."""
    used: Match = {
        "regex": f"^{HELPER}$",
        "any": [{"kind": "field_identifier"}, {"kind": "identifier"}],
        "not": {"inside": {"kind": "method_declaration", "field": "name"}},
    }
    for file in naming:
        for use in file.root.find_all(**used):
            if file.path in CALLERS and use.matches(**_called_in(CALLERS[file.path])):
                continue
            if file.path.endswith("_test.go"):
                raise MisfitError(
                    f"{file.at(use)} uses {HELPER} and would not compile after the fix, which "
                    "adds an argument",
                    advice="give the fix together with its tests by --fixed-ref or --fixed-patch",
                )
            callers = " and ".join(f"{name} in {path}" for path, name in CALLERS.items())
            raise MisfitError(
                f"{file.at(use)} uses {HELPER} too, expected calls by {callers} alone, for no "
                "other use says which API it is for",
                advice="give the fix by --fixed-ref or --fixed-patch",
            )


def _called_in(name: str) -> Match:
    """Match the name of what is called, somewhere in a method."""
    called: Match = {"kind": "call_expression", "all": [inside(method(name))]}
    selected: Match = {
        "kind": "selector_expression",
        "inside": {"field": "function", "all": [called]},
    }
    return {"inside": {"field": "field", "all": [selected]}}


def _parameters(declaration: SgNode) -> list[SgNode]:
    """The parameters of a method."""
    parameters = declaration.field("parameters")
    return parameters.named_children() if parameters else []


def _is_api_name(parameter: SgNode) -> bool:
    """Whether a parameter, or a variadic one, is of the type of API names."""
    of_type = parameter.field("type")
    return of_type is not None and of_type.text() == API_NAME
