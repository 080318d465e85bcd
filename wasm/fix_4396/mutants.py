"""Wrong fixes of #4396, made by the rules of the right one: what catches each of them?

A mutant is the fix with a rule left out, a rule that writes something else, or a further rule. It
compiles, it fixes something, and it is wrong. The regression tests have to fail on each.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wasm.fix_4396 import patch, regression
from wasm.fix_4396.retry_identity import (
    CHAT,
    FAILOVER,
    FORWARDING,
    HELPER,
    RETRY,
    RETRY_CALLER,
    RULES,
    fix,
)
from wasm.foundation import cache
from wasm.foundation.errors import BuildError
from wasm.golang import toolchain
from wasm.golang.codemod import Rule, call, inside, method
from wasm.module import build
from wasm.records import Fix, FixKind, Origin, Patch, Source, Variant
from wasm.source import files, variant_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from ast_grep_py import Rule as Match

    from wasm.fix_4396.regression import Showing
    from wasm.golang.toolchain import Toolchain
    from wasm.source.repository import Repository
    from wasm.source.variant_tree import Request, Tree

_RETRY_RULE = "retry-passes-its-api-name"
_HEALTH_CHECK_RULE = "health-check-passes-chat-completions"
_VIDEOS = "ApiNameVideos"


@dataclass(frozen=True)
class Mutant:
    """A wrong fix.

    Attributes:
        id: Its name, in kebab-case.
        says: What is wrong about it.
        rules: What makes it, in place of the fix's own.
        visible_at_runtime: Whether the bundled cases show it: their videos are Kling's, whose path
            is set by the transform of body and headers, and no health check is among them. For
            these alone a module is built.
    """

    id: str
    says: str
    rules: tuple[Rule, ...]
    visible_at_runtime: bool = False


def _without(rule_id: str) -> tuple[Rule, ...]:
    return tuple(rule for rule in RULES if rule.id != rule_id)


def _writing(rule_id: str, provider: str) -> tuple[Rule, ...]:
    """Return the rules with another text for the provider's argument of one of them."""
    return tuple(
        replace(rule, rewrite={"PROVIDER": provider}) if rule.id == rule_id else rule
        for rule in RULES
    )


# Both change one expression alone, so that they fit whatever statements are around it.
_KLING_ALONE = Rule(
    id="kling-in-retry",
    says="A retry is of its own API for Kling alone.",
    file=RETRY,
    where={
        "rule": {
            "all": [
                call(f"$C.{HELPER}($CTX, $PROVIDER, $API, $HEADERS, $BODY)"),
                inside(method(RETRY_CALLER)),
            ],
        },
    },
    rewrite={
        "API": "func() ApiName {\n"
        '\tif $PROVIDER.GetProviderType() == "kling" {\n\t\treturn $API\n\t}\n'
        f"\treturn {CHAT}\n}}()",
    },
    places=1,
)
_BODY_AND_HEADERS: Match = {
    "has": {
        "stopBy": "end",
        "all": [call("$OTHER.TransformRequestBodyHeaders($_, $_, $_, $HEADERS)")],
    },
}
_SWAPPED = Rule(
    id="swap-dispatch",
    says="The dispatch asks for the transform of body and headers first.",
    file=FAILOVER,
    where={
        "rule": {
            "all": [
                call("$FIRST.TransformRequestBody($CTX, $API, $BODY)"),
                {"pattern": "$CALL"},
                inside(method(HELPER, _BODY_AND_HEADERS)),
            ],
        },
    },
    rewrite={
        "CALL": "func() ([]byte, error) {\n"
        "\tif second, ok := any($FIRST).(interface {\n"
        "\t\tTransformRequestBodyHeaders(wrapper.HttpContext, ApiName, []byte, http.Header) "
        "([]byte, error)\n"
        "\t}); ok {\n"
        "\t\treturn second.TransformRequestBodyHeaders($CTX, $API, $BODY, $HEADERS)\n\t}\n"
        "\treturn $CALL\n}()",
    },
    places=1,
)

MUTANTS = (
    Mutant(
        "chat-in-retry",
        "the retry passes Chat Completions",
        _writing(_RETRY_RULE, f"$PROVIDER, {CHAT}"),
        visible_at_runtime=True,
    ),
    Mutant(
        "empty-in-retry",
        "the retry passes an empty API name",
        _writing(_RETRY_RULE, '$PROVIDER, ""'),
        visible_at_runtime=True,
    ),
    Mutant(
        "kling-in-retry",
        "the retry passes its API for Kling alone, and Chat Completions for all others",
        (*RULES, _KLING_ALONE),
    ),
    Mutant(
        "video-in-health-check",
        "the health check passes the API of the request that failed, a video",
        _writing(_HEALTH_CHECK_RULE, f"$PROVIDER, {_VIDEOS}"),
    ),
    Mutant(
        "empty-in-health-check",
        "the health check passes an empty API name, as its own context has none",
        _writing(_HEALTH_CHECK_RULE, '$PROVIDER, ""'),
    ),
    *(
        Mutant(
            f"forgotten-{rule.id}",
            "the helper still passes Chat Completions to "
            + rule.says.removeprefix("The helper forwards the API name to ").rstrip("."),
            _without(rule.id),
            visible_at_runtime=rule.id == "forward-to-body-headers-transform",
        )
        for rule in FORWARDING
    ),
    Mutant(
        "swapped-precedence",
        "the transform of body and headers goes before that of the body",
        (*RULES, _SWAPPED),
    ),
)


FIX = Mutant("fix", "the fix itself", RULES, visible_at_runtime=True)
"""What the tests must not fail on."""


@dataclass(frozen=True, kw_only=True)
class MutantRecord:
    """What the regression tests made of a mutant.

    Attributes:
        patch: The file that has its change to the baseline, without tests.
        places: Rule id -> how many places it changed.
        module_sha256: Of its module; None when none was built, since nothing would show there.
        killed_by: The tests that failed on it; none: it survives.
        passed: How many tests passed on it.
        killed_at_runtime: The cells of the matrix that failed on its module; None: not run.
        seconds: How long the tests took, compiling included.
    """

    id: str
    says: str
    visible_at_runtime: bool
    patch: str
    patch_sha256: str
    places: dict[str, int]
    module_sha256: str | None
    killed_by: list[str]
    passed: int
    killed_at_runtime: list[str] | None = None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class MutantRun:
    """``mutants.json``: what the regression tests made of each mutant, and of the fix itself.

    Attributes:
        source: The baseline that they were made from.
        tests_of_the_fix: How many tests pass on the right fix; none fails.
        fix: The right fix in the place of a mutant: what must not fail on it, else it proves
            nothing where it fails on a mutant.
    """

    source: Source
    go_version: str
    command: list[str]
    tests_of_the_fix: int
    fix: MutantRecord
    mutants: list[MutantRecord]


def run(request: Request, say: Callable[[str], object]) -> tuple[MutantRun, dict[str, bytes]]:
    """Make each mutant and run the regression tests on it; return the records and the patches.

    Raises:
        SourceError: The source is not one that the fix fits.
        BuildError: A mutant does not compile, or the tests fail on the fix itself.
    """
    patch.refuse_other_fixes(request)
    patches: dict[str, bytes] = {}
    tested: list[MutantRecord] = []
    with variant_tree.taken_out(Variant.BASELINE, request) as baseline, patch.aside() as ours:
        go = toolchain.of(baseline.source)
        right, rightly = _tested(go, baseline, ours, FIX)
        if right.failed or right.skipped:
            raise BuildError(
                f"{len(right.failed)} regression tests fail on the fix itself and "
                f"{len(right.skipped)} are skipped; expected all to pass, or they catch nothing; "
                "see the lines above",
                detail=right.output,
            )
        say(f"fix: {len(right.passed)} tests pass in {right.seconds:.1f} s")
        patches[_patch_of(FIX)] = rightly.patch.content
        for mutant in MUTANTS:
            shown, made = _tested(go, baseline, ours, mutant)
            _refuse_fewer(mutant, shown, right)
            patches[_patch_of(mutant)] = made.patch.content
            tested.append(_record(mutant, made, shown))
            say(f"{mutant.id}: {len(tested[-1].killed_by)} tests fail in {shown.seconds:.1f} s")
        return (
            MutantRun(
                source=baseline.source,
                go_version=go.version,
                command=right.command,
                tests_of_the_fix=len(right.passed),
                fix=_record(FIX, rightly, right),
                mutants=tested,
            ),
            patches,
        )


@dataclass(frozen=True)
class _Made:
    patch: Patch
    places: dict[str, int]
    module_sha256: str | None


def _tested(
    go: Toolchain, baseline: Tree, ours: Repository, mutant: Mutant
) -> tuple[Showing, _Made]:
    """Make a mutant in a copy of the baseline, build its module, and run the tests there."""
    with patch.advised(baseline.root):
        rewrite = fix(baseline.plugin, mutant.rules)
    with cache.scratch("mutant") as folder:
        root = folder / "tree"
        shutil.copytree(baseline.root, root, symlinks=True)
        for name, content in rewrite.files.items():
            (root / baseline.source.plugin / name).write_bytes(content)
        tree = replace(baseline, root=root)
        made = patch.difference(ours, ours.tree_of(baseline.root), tree)
        its = Fix(
            origin=Origin(kind=FixKind.MUTANT, name=mutant.id),
            patch=made,
            baseline_sha256=baseline.source.files_sha256,
            places=dict(rewrite.places),
        )
        described = replace(baseline.source, fix=its, files_sha256=files.digest(root))
        tree = replace(tree, source=described)
        try:
            module = build.built_from(tree, Variant.FIXED) if mutant.visible_at_runtime else None
            regression.lay_over(tree.plugin, with_the_fix=True)
            shown = regression.run(go, tree.plugin, module.path if module else None)
        except BuildError as error:
            raise BuildError(
                f"the mutant {mutant.id} could not be tried: {error.sentence}", detail=error.detail
            ) from error
    return shown, _Made(made, dict(rewrite.places), module.sha256 if module else None)


def _refuse_fewer(mutant: Mutant, shown: Showing, right: Showing) -> None:
    """Refuse to call a mutant killed, or alive, by fewer tests than the fix was held against."""
    due = {*right.passed} - {*shown.passed, *shown.failed}
    if not mutant.visible_at_runtime:
        due = {test for test in due if not regression.is_of_the_module(test)}
    if due:
        raise BuildError(
            f"the mutant {mutant.id} could not be tried: {len(due)} regression tests that pass on "
            f"the fix did not run on it, first {min(due)}; expected each to end in pass or fail"
        )


def _patch_of(mutant: Mutant) -> str:
    return f"patches/{mutant.id}.patch"


def _record(mutant: Mutant, made: _Made, shown: Showing) -> MutantRecord:
    return MutantRecord(
        id=mutant.id,
        says=mutant.says,
        visible_at_runtime=mutant.visible_at_runtime,
        patch=_patch_of(mutant),
        patch_sha256=made.patch.sha256,
        places=made.places,
        module_sha256=made.module_sha256,
        killed_by=regression.leaves(shown.failed, [*shown.failed, *shown.passed]),
        passed=len(shown.passed),
        seconds=shown.seconds,
    )
