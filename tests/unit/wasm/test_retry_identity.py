"""The fix for #4396 on small plugins: what it writes, what it refuses, and mutants of it."""

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from wasm.fix_4396.retry_identity import FIX_ID, RULES, fix
from wasm.foundation.errors import MisfitError, SourceError
from wasm.golang.codemod import Rule, inside, method

HELPER_NAME = "transformRequestHeadersAndBody"
FAILOVER = "provider/failover.go"
RETRY = "provider/retry.go"
OTHER = "provider/other.go"
TEST = "provider/retry_test.go"

DIFFERS = (
    "this tree is not the one the fix was written for; give the fix by --fixed-ref or --fixed-patch"
)
EXPECTED_CALLERS = (
    "expected calls by sendRetryRequest in provider/retry.go and SetApiTokensFailover in "
    "provider/failover.go alone, for no other use says which API it is for; "
    "give the fix by --fixed-ref or --fixed-patch"
)

# The smallest plugin with the defect. What the fix changes is marked: «before→after».
MARKED = {
    FAILOVER: """\
package provider

import (
	"sample/http"
	"sample/wrapper"
)

// SetApiTokensFailover calls s.transformRequestHeadersAndBody(ctx, to, sent, payload).
func (s *ProviderConfig) SetApiTokensFailover(to Provider) error {
	wrapper.EveryTick(func() {
		for range s.down {
			sent, payload := [][2]string{{":path", "/"}}, []byte("{}")
			if _, _, err := s.transformRequestHeadersAndBody(wrapper.Nobody(), to,« → ApiNameChatCompletion, »sent, payload); err != nil {
				return
			}
		}
	})
	return nil
}

func (s *ProviderConfig) transformRequestHeadersAndBody(ctx wrapper.HttpContext, to Provider,« → apiName ApiName, »sent [][2]string, payload []byte) (out http.Header, made []byte, err error) {
	out = http.Header{}
	if t, is := to.(headersFirst); is {
		// 中文: t.TransformRequestHeaders(ctx, ApiNameChatCompletion, out)
		t.TransformRequestHeaders(ctx, «ApiNameChatCompletion→apiName», out)
	}
	switch t := to.(type) {
	case bodyAlone:
		made, err = t.TransformRequestBody(ctx, «ApiNameChatCompletion→apiName», payload)
	case bodyWithHeaders:
		made, err = t.TransformRequestBodyHeaders(ctx, «ApiNameChatCompletion→apiName», payload, out)
	default:
		made, err = s.defaultTransformRequestBody(ctx, «ApiNameChatCompletion→apiName», payload)
	}
	return out, made, err
}
""",  # noqa: E501
    RETRY: """\
package provider

import "sample/wrapper"

const says = "s.transformRequestHeadersAndBody(ctx, to, sent, payload)"

func (s *ProviderConfig) sendRetryRequest(
	ctx wrapper.HttpContext, apiName ApiName, to Provider,
	left []string,
) error {
	payload := []byte(says + `s.transformRequestHeadersAndBody(a, b, c, d)`)
	_, _, err := s.transformRequestHeadersAndBody(ctx, to,« → apiName, »[][2]string{
		{"content-type", "text/plain"}, // kept
	}, payload)
	return err
}
""",
    TEST: """\
package provider

// transformRequestHeadersAndBody is named by a comment, which compiles after the fix as before.
""",
    "provider/provider.go": """\
package provider

import (
	"sample/http"
	"sample/wrapper"
)

type ApiName string

const ApiNameChatCompletion ApiName = "chat_completions"

type Provider interface{ GetProviderType() string }

type headersFirst interface {
	TransformRequestHeaders(wrapper.HttpContext, ApiName, http.Header)
}

type bodyAlone interface {
	TransformRequestBody(wrapper.HttpContext, ApiName, []byte) ([]byte, error)
}

type bodyWithHeaders interface {
	TransformRequestBodyHeaders(wrapper.HttpContext, ApiName, []byte, http.Header) ([]byte, error)
}

type ProviderConfig struct{ down []string }

func (s *ProviderConfig) defaultTransformRequestBody(_ wrapper.HttpContext, _ ApiName, payload []byte) ([]byte, error) {
	return payload, nil
}
""",  # noqa: E501
    "http/http.go": "package http\n\ntype Header map[string][]string\n",
    "wrapper/wrapper.go": """\
package wrapper

type HttpContext interface{ GetContext(key string) any }

func Nobody() HttpContext { return nil }

func EveryTick(tick func()) {}
""",
    "go.mod": "module sample\n\ngo 1.24\n",
}

MARK = re.compile("«(.*?)→(.*?)»")
BEFORE = {path: MARK.sub(r"\1", text) for path, text in MARKED.items()}
AFTER = {path: MARK.sub(r"\2", text) for path, text in MARKED.items()}
CHANGED = {path: AFTER[path] for path in (FAILOVER, RETRY)}
DISPATCH = "\tswitch t := to.(type) {\n"

SIGNATURE_AT = BEFORE[FAILOVER][: BEFORE[FAILOVER].index(") transformRequest")].count("\n") + 1


def written(folder: Path, tree: Mapping[str, str | bytes]) -> Path:
    """A folder that holds a tree."""
    for path, content in tree.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def fixed(folder: Path, tree: Mapping[str, str], rules: tuple[Rule, ...] = RULES) -> dict[str, str]:
    """The changed files of a tree."""
    files = fix(written(folder, tree), rules).files
    return {path: content.decode() for path, content in files.items()}


def refusal(folder: Path, tree: Mapping[str, str | bytes]) -> str:
    """The sentence with which the fix refuses a tree."""
    with pytest.raises(SourceError) as refused:
        fix(written(folder, tree))
    assert isinstance(refused.value, MisfitError) is ("--fixed-" in str(refused.value))
    return str(refused.value)


def changed(path: str, *pairs: tuple[str, str], tree: Mapping[str, str] = BEFORE) -> dict[str, str]:
    """The sample with other text in one of its files."""
    text = tree[path]
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return {**tree, path: text}


def go(folder: Path, *command: str) -> str:
    """What a command of Go prints about a module that needs nothing else, if anything."""
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": ""}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_the_fix_has_an_id_and_its_rules_have_different_ones() -> None:
    assert FIX_ID == "higress-4396"
    assert len({rule.id for rule in RULES}) == len(RULES) == 7


def test_the_helper_and_both_callers_are_changed_and_nothing_else(tmp_path: Path) -> None:
    rewrite = fix(written(tmp_path, BEFORE))
    assert {path: content.decode() for path, content in rewrite.files.items()} == CHANGED
    assert rewrite.places == {
        "helper-takes-api-name": 1,
        "forward-to-header-transform": 1,
        "forward-to-body-transform": 1,
        "forward-to-body-headers-transform": 1,
        "forward-to-default-transform": 1,
        "retry-passes-its-api-name": 1,
        "health-check-passes-chat-completions": 1,
    }
    assert (tmp_path / FAILOVER).read_text() == BEFORE[FAILOVER]


def test_gofmt_and_go_vet_find_nothing_in_what_it_writes(tmp_path: Path) -> None:
    written(tmp_path, {**BEFORE, **fixed(tmp_path, BEFORE)})
    assert go(tmp_path, "gofmt", "-l", ".") == ""
    assert go(tmp_path, "go", "vet", "./...") == ""


def test_crlf_stays_crlf(tmp_path: Path) -> None:
    crlf = {path: text.replace("\n", "\r\n") for path, text in BEFORE.items()}
    assert fixed(tmp_path, crlf) == {
        path: text.replace("\n", "\r\n") for path, text in CHANGED.items()
    }


@pytest.mark.parametrize(
    "around",
    [
        pytest.param(lambda text: "\ufeff" + text, id="a byte order mark"),
        pytest.param(lambda text: text.replace("\t", "    "), id="spaces for tabs"),
        pytest.param(lambda text: text.replace("\t", " \t"), id="spaces and tabs"),
        pytest.param(lambda text: "//go:build !other\n\n" + text, id="a build constraint"),
        pytest.param(
            lambda text: text + "// Code generated by nobody. DO NOT EDIT.\n",
            id="a generator named after the package clause",
        ),
        pytest.param(
            lambda text: "// Code generated code is not. DO EDIT.\n\n" + text,
            id="a comment that only looks like a generator's",
        ),
        pytest.param(lambda text: text.removesuffix("\n"), id="no newline at the end"),
    ],
)
def test_bytes_around_what_is_changed_are_kept(
    tmp_path: Path, around: Callable[[str], str]
) -> None:
    before = {path: around(text) if path in CHANGED else text for path, text in BEFORE.items()}
    assert fixed(tmp_path, before) == {path: around(text) for path, text in CHANGED.items()}


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        # Of our own making, where the pull requests are: 4552 in the helper, 3882 in the retry.
        pytest.param(
            FAILOVER,
            DISPATCH,
            '\tif s.domain != "" {\n\t\tout[":authority"] = []string{s.domain}\n\t}\n' + DISPATCH,
            id="a provider's domain in the helper",
        ),
        pytest.param(
            FAILOVER,
            "\treturn out, made, err\n",
            "\tif err == nil {\n\t\ts.applyDomain(out)\n\t}\n\treturn out, made, err\n",
            id="a provider's domain after the transform of the body",
        ),
        pytest.param(
            RETRY,
            "\tpayload :=",
            '\tctx.SetContext("streams", s.streams(ctx, apiName))\n\tpayload :=',
            id="streaming in the retry",
        ),
    ],
)
def test_what_a_neighbouring_change_does_nearby_is_kept(
    tmp_path: Path, path: str, old: str, new: str
) -> None:
    after = changed(path, (old, new), tree=AFTER)
    assert fixed(tmp_path, changed(path, (old, new))) == {each: after[each] for each in CHANGED}


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(f"func {HELPER_NAME}Twice() {{}}", id="a longer name"),
        pytest.param(f'var _ = "{HELPER_NAME}" + `c.{HELPER_NAME}(a, b, c, d)`', id="strings"),
        pytest.param(f"/* func {HELPER_NAME}() {{}} */", id="a comment of several lines"),
        pytest.param("var _ = ApiNameChatCompletion", id="Chat Completions elsewhere"),
        pytest.param(
            "func (o *Other) sendRetryRequest() { apiName := 1; _ = apiName }",
            id="a method of the retry's name, of another type and file",
        ),
    ],
)
def test_another_file_that_only_looks_like_it_changes_nothing(tmp_path: Path, code: str) -> None:
    assert fixed(tmp_path, {**BEFORE, OTHER: another(code)}) == CHANGED


def test_a_file_that_is_generated_and_only_names_the_helper_is_left_alone(tmp_path: Path) -> None:
    text = f"// Code generated by gen. DO NOT EDIT.\n\npackage provider\n\n// {HELPER_NAME}\n"
    assert fixed(tmp_path, {**BEFORE, OTHER: text}) == CHANGED


def test_a_fixed_tree_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, AFTER) == (
        f"provider/failover.go:{SIGNATURE_AT} already carries the fix for #4396, "
        "transformRequestHeadersAndBody takes an ApiName; "
        "use --baseline-ref and --fixed-ref to compare two commits"
    )


def test_the_retry_passes_its_parameter_by_whatever_name(tmp_path: Path) -> None:
    named = ("apiName ApiName", "resolved ApiName")
    assert fixed(tmp_path, changed(RETRY, named)) == {
        FAILOVER: AFTER[FAILOVER],
        RETRY: AFTER[RETRY]
        .replace("apiName ApiName", "resolved ApiName")
        .replace("to, apiName, ", "to, resolved, "),
    }


def test_calls_in_function_literals_are_found(tmp_path: Path) -> None:
    in_helper = (CALL_DEFAULT, f"func() ([]byte, error) {{ return {CALL_DEFAULT} }}()")
    in_retry = ("_, _, err := s.", "var err error\n\tfunc() { _, _, err = s.")
    end = ("}, payload)", "}, payload) }()")
    before = changed(RETRY, in_retry, end, tree=changed(FAILOVER, in_helper))
    after = changed(RETRY, in_retry, end, tree=AFTER)
    old, new = (text.replace("ApiNameChatCompletion", "apiName") for text in in_helper)
    after = changed(FAILOVER, (old, new), tree=after)
    assert fixed(tmp_path, before) == {path: after[path] for path in CHANGED}


LAYOUTS = {
    "returns": """\
	if t, is := to.(bodyAlone); is {
		made, err = t.TransformRequestBody(ctx, «», payload)
		return out, made, err
	}
	if t, is := to.(bodyWithHeaders); is {
		made, err = t.TransformRequestBodyHeaders(ctx, «», payload, out)
		return out, made, err
	}
	made, err = s.defaultTransformRequestBody(ctx, «», payload)
""",
    "nested": """\
	alone, is := to.(bodyAlone)
	if !is {
		if t, is := to.(bodyWithHeaders); !is {
			made, err = s.defaultTransformRequestBody(ctx, «», payload)
		} else if made, err = t.TransformRequestBodyHeaders(ctx, «», payload, out); err != nil {
			return nil, nil, err
		}
	} else {
		made, err = alone.TransformRequestBody(ctx, «», payload)
	}
""",
}
"""Other ways to dispatch than the sample's; «» is where the API goes."""


def laid_out(layout: str, tree: Mapping[str, str], api: str) -> dict[str, str]:
    """The sample, before or after the fix, with another dispatch in its helper."""
    start, end = (tree[FAILOVER].index(text) for text in (DISPATCH, "\treturn out, made, err\n"))
    switch = tree[FAILOVER][start:end]
    return changed(FAILOVER, (switch, LAYOUTS[layout].replace("«»", api)), tree=tree)


UNNAMED = (
    ("(out http.Header, made []byte, err error) {", "(http.Header, []byte, error) {"),
    ("\tout = http", "\tvar made []byte\n\tvar err error\n\tout := http"),
)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("pairs", [(), UNNAMED], ids=["named results", "unnamed results"])
def test_the_order_of_statements_in_the_helper_does_not_matter(
    tmp_path: Path, layout: str, pairs: tuple[tuple[str, str], ...]
) -> None:
    before = changed(FAILOVER, *pairs, tree=laid_out(layout, BEFORE, "ApiNameChatCompletion"))
    after = changed(FAILOVER, *pairs, tree=laid_out(layout, AFTER, "apiName"))
    files = fixed(tmp_path, before)
    assert files == {path: after[path] for path in CHANGED}
    written(tmp_path, files)
    assert go(tmp_path, "gofmt", "-l", ".") == ""
    assert go(tmp_path, "go", "vet", "./...") == ""


def test_an_argument_a_line_stays_so_with_its_comments(tmp_path: Path) -> None:
    call = "wrapper.Nobody(), to, sent, payload)"
    spread = (
        "\n\t\t\t\twrapper.Nobody(), // synthetic\n\t\t\t\tto,\n"
        "\t\t\t\tsent,\n\t\t\t\tpayload,\n\t\t\t)"
    )
    before = changed(FAILOVER, (call, spread))
    expected = AFTER[FAILOVER].replace(
        call.replace("to, ", "to, ApiNameChatCompletion, "),
        spread.replace("\tto,", "\tto, ApiNameChatCompletion,"),
    )
    files = fixed(tmp_path, before)
    assert files[FAILOVER] == expected
    assert go(written(tmp_path, files), "gofmt", "-l", ".") == ""


HELPER_HEAD = f"func (s *ProviderConfig) {HELPER_NAME}"
HELPER_TEXT = BEFORE[FAILOVER][BEFORE[FAILOVER].index(HELPER_HEAD) :]
SECOND_AT = BEFORE[FAILOVER].count("\n") + 2
EXPECTED_TYPES = (
    f"func (*ProviderConfig) {HELPER_NAME}(wrapper.HttpContext, Provider, [][2]string, []byte) "
    "(http.Header, []byte, error)"
)
CALL_DEFAULT = "s.defaultTransformRequestBody(ctx, ApiNameChatCompletion, payload)"
SECOND_CALL = f"s.{HELPER_NAME}(nil, nil, nil, nil)"


def another(code: str, package: str = "provider") -> str:
    """A further file whose third line is some code."""
    return f"package {package}\n\n{code}\n"


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        pytest.param(
            {path: text for path, text in BEFORE.items() if path != FAILOVER},
            f"provider/failover.go was not found in the plugin's folder; {DIFFERS}",
            id="no failover.go",
        ),
        pytest.param(
            {path: text for path, text in BEFORE.items() if path != RETRY},
            f"provider/retry.go was not found in the plugin's folder; {DIFFERS}",
            id="no retry.go",
        ),
        pytest.param(
            {path: text.replace(HELPER_NAME, "rebuildRequest") for path, text in BEFORE.items()},
            "provider/failover.go declares no method transformRequestHeadersAndBody, "
            f"expected the helper of #4396; {DIFFERS}",
            id="the helper renamed",
        ),
        pytest.param(
            {**changed(FAILOVER, (HELPER_TEXT, "")), OTHER: another(HELPER_TEXT)},
            "provider/other.go:3 declares transformRequestHeadersAndBody, "
            f"expected provider/failover.go to declare it, once; {DIFFERS}",
            id="the helper in another file",
        ),
        pytest.param(
            {**BEFORE, OTHER: another(f"func (o *Other) {HELPER_NAME}() {{}}")},
            f"provider/failover.go:{SIGNATURE_AT} and provider/other.go:3 declares "
            "transformRequestHeadersAndBody, expected provider/failover.go to declare it, once; "
            + DIFFERS,
            id="another method of that name",
        ),
        pytest.param(
            changed(FAILOVER, ("payload []byte) (out", "payload []byte, names ...ApiName) (out")),
            f"provider/failover.go:{SIGNATURE_AT} already carries the fix for #4396, "
            "transformRequestHeadersAndBody takes an ApiName; "
            "use --baseline-ref and --fixed-ref to compare two commits",
            id="fixed in another way",
        ),
        pytest.param(
            changed(FAILOVER, ("payload []byte) (out", "payload []byte, method string) (out")),
            f"provider/failover.go:{SIGNATURE_AT} declares {HELPER_HEAD}(ctx wrapper.HttpContext, "
            "to Provider, sent [][2]string, payload []byte, method string) "
            f"(out http.Header, made []byte, err error), expected {EXPECTED_TYPES}; " + DIFFERS,
            id="another signature",
        ),
        pytest.param(
            changed(FAILOVER, (HELPER_HEAD, HELPER_HEAD.replace("*", ""))),
            f"provider/failover.go:{SIGNATURE_AT} declares func (s ProviderConfig) {HELPER_NAME}("
            "ctx wrapper.HttpContext, to Provider, sent [][2]string, payload []byte) "
            f"(out http.Header, made []byte, err error), expected {EXPECTED_TYPES}; " + DIFFERS,
            id="another receiver",
        ),
        pytest.param(
            changed(
                FAILOVER, (f"made, err = {CALL_DEFAULT}\n", 2 * f"made, err = {CALL_DEFAULT}\n")
            ),
            f"provider/failover.go:{SIGNATURE_AT} transformRequestHeadersAndBody names "
            "ApiNameChatCompletion 5 times (lines: 25, 29, 31, 33, 34), expected 4; " + DIFFERS,
            id="five uses",
        ),
        pytest.param(
            changed(FAILOVER, (CALL_DEFAULT, "payload, nil")),
            f"provider/failover.go:{SIGNATURE_AT} transformRequestHeadersAndBody names "
            "ApiNameChatCompletion 3 times (lines: 25, 29, 31), expected 4; " + DIFFERS,
            id="three uses",
        ),
        pytest.param(
            changed(
                FAILOVER, (CALL_DEFAULT, "s.anotherTransform(ctx, ApiNameChatCompletion, payload)")
            ),
            "rule forward-to-default-transform applies 0 times in provider/failover.go "
            f"(lines: none), expected 1; {DIFFERS}",
            id="a use elsewhere",
        ),
        pytest.param(
            changed(FAILOVER, (DISPATCH, f'\tapiName := "x"\n{DISPATCH}')),
            "provider/failover.go:27 transformRequestHeadersAndBody already uses the name apiName, "
            f"expected it to be free for the new argument; {DIFFERS}",
            id="apiName taken",
        ),
        pytest.param(
            changed(RETRY, ("sendRetryRequest", "retryAgain")),
            f"provider/retry.go declares no method sendRetryRequest; {DIFFERS}",
            id="the retry renamed",
        ),
        pytest.param(
            changed(RETRY, ("apiName ApiName", "apiName string")),
            "provider/retry.go:7 sendRetryRequest has 0 parameters of type ApiName, expected one, "
            f"to be passed to transformRequestHeadersAndBody; {DIFFERS}",
            id="a retry without an API name",
        ),
        pytest.param(
            changed(RETRY, ("apiName ApiName", "_ ApiName")),
            "provider/retry.go:7 sendRetryRequest has 0 parameters of type ApiName, expected one, "
            f"to be passed to transformRequestHeadersAndBody; {DIFFERS}",
            id="a retry that does not name its API name",
        ),
        pytest.param(
            changed(RETRY, ("apiName ApiName", "from, to ApiName")),
            "provider/retry.go:7 sendRetryRequest has 2 parameters of type ApiName, expected one, "
            f"to be passed to transformRequestHeadersAndBody; {DIFFERS}",
            id="a retry with two API names",
        ),
        pytest.param(
            changed(RETRY, ("\tpayload :=", "\tapiName, payload := ApiName(says),")),
            "provider/retry.go:11 declares apiName again inside sendRetryRequest, "
            f"expected it to be the parameter throughout; {DIFFERS}",
            id="a retry that shadows its API name",
        ),
        pytest.param(
            changed(RETRY, ("\tpayload :=", "\tapiName = ApiName(says)\n\tpayload :=")),
            "provider/retry.go:11 sets apiName inside sendRetryRequest, expected it to be what "
            f"sendRetryRequest was given throughout; {DIFFERS}",
            id="a retry that sets its API name",
        ),
        pytest.param(
            changed(
                FAILOVER,
                (
                    "\t\tfor range s.down",
                    '\t\tApiNameChatCompletion := "x"\n\t\tfor range s.down',
                ),
            ),
            "provider/failover.go:11 declares ApiNameChatCompletion again inside "
            "SetApiTokensFailover, expected it to be the package's constant throughout; " + DIFFERS,
            id="a health check that shadows Chat Completions",
        ),
        pytest.param(
            changed(FAILOVER, (DISPATCH, f'\tApiNameChatCompletion := "x"\n{DISPATCH}')),
            f"provider/failover.go:{SIGNATURE_AT} transformRequestHeadersAndBody names "
            "ApiNameChatCompletion 5 times (lines: 25, 27, 30, 32, 34), expected 4; " + DIFFERS,
            id="a helper that shadows Chat Completions",
        ),
        pytest.param(
            {**BEFORE, FAILOVER: BEFORE[FAILOVER] + "\n" + HELPER_TEXT},
            f"provider/failover.go:{SIGNATURE_AT} and provider/failover.go:{SECOND_AT} declares "
            "transformRequestHeadersAndBody, expected provider/failover.go to declare it, once; "
            + DIFFERS,
            id="the helper twice in one file",
        ),
        pytest.param(
            {
                **changed(FAILOVER, ("package provider", "//go:build !old\n\npackage provider")),
                OTHER: "//go:build old\n\n" + another(HELPER_TEXT),
            },
            f"provider/failover.go:{SIGNATURE_AT + 2} and provider/other.go:5 declares "
            "transformRequestHeadersAndBody, expected provider/failover.go to declare it, once; "
            + DIFFERS,
            id="the helper twice, by build constraints",
        ),
        pytest.param(
            {
                **BEFORE,
                OTHER: "//go:build never\n\n"
                + another(f"func x(s *ProviderConfig) {{ {SECOND_CALL} }}"),
            },
            f"provider/other.go:5 uses transformRequestHeadersAndBody too, {EXPECTED_CALLERS}",
            id="another caller that is built elsewhere",
        ),
        *(
            pytest.param(
                {**BEFORE, path: "// Code generated by gen v1. DO NOT EDIT.\n\n" + BEFORE[path]},
                f"{path}:1 says that the file is generated, expected one written by hand, for its "
                "generator would undo the fix; change what it is generated from, and give the fix "
                "by --fixed-ref or --fixed-patch",
                id=f"{path} generated",
            )
            for path in (FAILOVER, RETRY)
        ),
        pytest.param(
            changed(
                RETRY,
                (
                    f"s.{HELPER_NAME}(ctx, to, [",
                    f"(s.{HELPER_NAME})(ctx, to, [",
                ),
            ),
            f"provider/retry.go:12 uses transformRequestHeadersAndBody too, {EXPECTED_CALLERS}",
            id="a call in parentheses",
        ),
        pytest.param(
            changed(
                FAILOVER,
                ("wrapper.Nobody(), to, sent, payload)", "four())"),
            ),
            "rule health-check-passes-chat-completions applies 0 times in provider/failover.go "
            f"(lines: none), expected 1; {DIFFERS}",
            id="a call with the results of another",
        ),
        pytest.param(
            changed(RETRY, ("\treturn err\n", f"\t{SECOND_CALL}\n\treturn err\n")),
            "rule retry-passes-its-api-name applies 2 times in provider/retry.go (lines: 12, 15), "
            f"expected 1; {DIFFERS}",
            id="a retry that calls twice",
        ),
        pytest.param(
            {**BEFORE, FAILOVER: BEFORE[FAILOVER].replace(") SetApiTokensFailover", ") Probe")},
            f"provider/failover.go:13 uses transformRequestHeadersAndBody too, {EXPECTED_CALLERS}",
            id="the health check renamed",
        ),
        pytest.param(
            changed(
                RETRY,
                ("const says", f"func (s *ProviderConfig) x() {{ {SECOND_CALL} }}\n\nconst says"),
            ),
            f"provider/retry.go:5 uses transformRequestHeadersAndBody too, {EXPECTED_CALLERS}",
            id="another caller in the same file",
        ),
        pytest.param(
            {**BEFORE, OTHER: another(f"func x(s *ProviderConfig) {{ {SECOND_CALL} }}")},
            f"provider/other.go:3 uses transformRequestHeadersAndBody too, {EXPECTED_CALLERS}",
            id="another caller in another file",
        ),
        pytest.param(
            {**BEFORE, OTHER: another(f"var f = (&ProviderConfig{{}}).{HELPER_NAME}")},
            f"provider/other.go:3 uses transformRequestHeadersAndBody too, {EXPECTED_CALLERS}",
            id="a method value",
        ),
        pytest.param(
            changed(RETRY, ("_, _, err := s.", f"f := s.{HELPER_NAME}\n\t_, _, err := s.")),
            f"provider/retry.go:12 uses transformRequestHeadersAndBody too, {EXPECTED_CALLERS}",
            id="a method value in a known caller",
        ),
        pytest.param(
            {**BEFORE, OTHER: another(f"var f = (*ProviderConfig).{HELPER_NAME}")},
            f"provider/other.go:3 uses transformRequestHeadersAndBody too, {EXPECTED_CALLERS}",
            id="a method expression",
        ),
        pytest.param(
            {**BEFORE, OTHER: another(f"type helper interface{{ {HELPER_NAME}() }}")},
            f"provider/other.go:3 uses transformRequestHeadersAndBody too, {EXPECTED_CALLERS}",
            id="an interface",
        ),
        pytest.param(
            {**BEFORE, TEST: another(f"func x(s *ProviderConfig) {{ {SECOND_CALL} }}")},
            "provider/retry_test.go:3 uses transformRequestHeadersAndBody and would not compile "
            "after the fix, which adds an argument; "
            "give the fix together with its tests by --fixed-ref or --fixed-patch",
            id="a test",
        ),
        pytest.param(
            changed(RETRY, ("return err\n}", "return err\n")),
            "provider/retry.go:17 does not parse as Go; "
            "see what `gofmt -l provider/retry.go` says and correct the file",
            id="Go that does not parse",
        ),
        pytest.param(
            {**BEFORE, RETRY: BEFORE[RETRY].encode() + b"// \xff\n"},
            "provider/retry.go:17 is not UTF-8, as Go source must be; "
            "re-encode or restore the file",
            id="not UTF-8",
        ),
    ],
)
def test_a_tree_that_differs_is_refused(
    tmp_path: Path, tree: dict[str, str | bytes], sentence: str
) -> None:
    assert refusal(tmp_path, tree) == sentence


def test_a_folder_without_the_package_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, {"main.go": "package main\n"}) == (
        f"{tmp_path}/provider holds no Go files, expected the package provider of the plugin; "
        "name the plugin's folder by --source and --plugin"
    )


def test_files_that_do_not_name_the_helper_are_not_looked_into(tmp_path: Path) -> None:
    assert fixed(tmp_path, {**BEFORE, OTHER: "not Go {"}) == CHANGED


RULE = {rule.id: rule for rule in RULES}


def with_rule(rule: Rule) -> tuple[Rule, ...]:
    """The rules of the fix with another in the place of the one of its id."""
    return tuple(rule if old.id == rule.id else old for old in RULES)


def test_a_mutant_is_the_fix_with_a_rule_left_out(tmp_path: Path) -> None:
    rules = tuple(rule for rule in RULES if rule.id != "forward-to-body-transform")
    forgotten = (
        "t.TransformRequestBody(ctx, apiName",
        "t.TransformRequestBody(ctx, ApiNameChatCompletion",
    )
    assert fixed(tmp_path, BEFORE, rules) == {
        FAILOVER: AFTER[FAILOVER].replace(*forgotten),
        RETRY: AFTER[RETRY],
    }


def test_a_mutant_is_the_fix_with_a_rule_that_writes_something_else(tmp_path: Path) -> None:
    retry = RULE["retry-passes-its-api-name"]
    chat = replace(retry, rewrite={"PROVIDER": "$PROVIDER, ApiNameChatCompletion"})
    assert fixed(tmp_path, BEFORE, with_rule(chat)) == {
        FAILOVER: AFTER[FAILOVER],
        RETRY: AFTER[RETRY].replace("to, apiName,", "to, ApiNameChatCompletion,"),
    }


def test_a_mutant_is_the_fix_and_a_further_rule(tmp_path: Path) -> None:
    swap = Rule(
        id="swap-cases",
        says="The dispatch asks for the transform of body and headers first.",
        file=FAILOVER,
        where={
            "rule": {
                "kind": "type_switch_statement",
                "all": [
                    inside(method(HELPER_NAME)),
                    {"has": {"kind": "type_case", "nthChild": 3, "pattern": "$FIRST"}},
                    {"has": {"kind": "type_case", "nthChild": 4, "pattern": "$SECOND"}},
                ],
            },
        },
        rewrite={"FIRST": "$SECOND", "SECOND": "$FIRST"},
        places=1,
    )
    files = fixed(tmp_path, BEFORE, (*RULES, swap))
    start = AFTER[FAILOVER].splitlines().index(DISPATCH.strip("\n"))
    assert files[FAILOVER].splitlines()[start : start + 7] == [
        DISPATCH.strip("\n"),
        "\tcase bodyWithHeaders:",
        "\t\tmade, err = t.TransformRequestBodyHeaders(ctx, apiName, payload, out)",
        "\tcase bodyAlone:",
        "\t\tmade, err = t.TransformRequestBody(ctx, apiName, payload)",
        "\tdefault:",
        "\t\tmade, err = s.defaultTransformRequestBody(ctx, apiName, payload)",
    ]
    written(tmp_path, files)
    assert go(tmp_path, "gofmt", "-l", ".") == ""
    assert go(tmp_path, "go", "vet", "./...") == ""
