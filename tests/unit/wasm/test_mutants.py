"""The wrong fixes: what each of them writes, and that the regression tests decide about them."""

from __future__ import annotations

import difflib
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.base_path import OF_THE_REFERENCE
from tests.unit.wasm.test_retry_identity import (
    AFTER,
    BEFORE,
    FAILOVER,
    LAYOUTS,
    RETRY,
    go,
    laid_out,
    written,
)
from wasm import __main__ as command
from wasm.fix_4396 import mutants
from wasm.fix_4396.mutants import MUTANTS, Mutant, MutantRun
from wasm.fix_4396.regression import Showing
from wasm.fix_4396.retry_identity import RULES, fix
from wasm.foundation.errors import BuildError, SourceError
from wasm.records import sha256_of
from wasm.source.variant_tree import Request

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.wasm.conftest import Checkout

MUTANT = {mutant.id: mutant for mutant in MUTANTS}
CHAT = "ApiNameChatCompletion"
# The sample lacks what a mutant names.
SAMPLE = {
    **BEFORE,
    "provider/more.go": 'package provider\n\nconst ApiNameVideos ApiName = "videos"\n',
}
RETRY_CALL = "\t_, _, err := s.transformRequestHeadersAndBody(ctx, to, {}, [][2]string{{"
CHECK_CALL = (
    "\t\t\tif _, _, err := s.transformRequestHeadersAndBody(wrapper.Nobody(), to, {}, sent, "
    "payload); err != nil {{"
)


def differing(folder: Path, mutant: Mutant) -> dict[str, list[str]]:
    """The lines in which a mutant of the sample differs from the fix: path to -old, +new."""
    files = fix(written(folder, SAMPLE), mutant.rules).files
    found = {}
    for path in (FAILOVER, RETRY):
        new = files[path].decode() if path in files else SAMPLE[path]
        lines = difflib.ndiff(AFTER[path].splitlines(), new.splitlines())
        found[path] = [line for line in lines if line[0] in "+-"]
    return {path: lines for path, lines in found.items() if lines}


def forgotten(line: str) -> dict[str, list[str]]:
    """What differs where one call still passes Chat Completions."""
    return {FAILOVER: [f"- {line.format('apiName')}", f"+ {line.format(CHAT)}"]}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "chat-in-retry",
            {RETRY: ["- " + RETRY_CALL.format("apiName"), "+ " + RETRY_CALL.format(CHAT)]},
        ),
        (
            "empty-in-retry",
            {RETRY: ["- " + RETRY_CALL.format("apiName"), "+ " + RETRY_CALL.format('""')]},
        ),
        (
            "kling-in-retry",
            {
                RETRY: [
                    "- " + RETRY_CALL.format("apiName"),
                    "+ " + RETRY_CALL.partition("{}")[0] + "func() ApiName {",
                    '+ \t\tif to.GetProviderType() == "kling" {',
                    "+ \t\t\treturn apiName",
                    "+ \t\t}",
                    f"+ \t\treturn {CHAT}",
                    "+ \t}(), [][2]string{",
                ]
            },
        ),
        (
            "video-in-health-check",
            {FAILOVER: ["- " + CHECK_CALL.format(CHAT), "+ " + CHECK_CALL.format("ApiNameVideos")]},
        ),
        (
            "empty-in-health-check",
            {FAILOVER: ["- " + CHECK_CALL.format(CHAT), "+ " + CHECK_CALL.format('""')]},
        ),
        (
            "forgotten-forward-to-header-transform",
            forgotten("\t\tt.TransformRequestHeaders(ctx, {}, out)"),
        ),
        (
            "forgotten-forward-to-body-transform",
            forgotten("\t\tmade, err = t.TransformRequestBody(ctx, {}, payload)"),
        ),
        (
            "forgotten-forward-to-body-headers-transform",
            forgotten(
                "\t\tmade, err = t.TransformRequestBodyHeaders(ctx, {}, payload, out)",
            ),
        ),
        (
            "forgotten-forward-to-default-transform",
            forgotten("\t\tmade, err = s.defaultTransformRequestBody(ctx, {}, payload)"),
        ),
    ],
)
def test_a_mutant_differs_from_the_fix_in_what_is_wrong_about_it(
    tmp_path: Path, name: str, expected: dict[str, list[str]]
) -> None:
    assert differing(tmp_path, MUTANT[name]) == expected


def test_the_swapped_dispatch_asks_for_the_other_transform_where_the_first_was_called(
    tmp_path: Path,
) -> None:
    found = differing(tmp_path, MUTANT["swapped-precedence"])
    lines = [line.replace("\t", "") for line in found[FAILOVER]]
    removed = [line for line in lines if line.startswith("-")]
    added = [line for line in lines if line.startswith("+")]
    assert removed == ["- made, err = t.TransformRequestBody(ctx, apiName, payload)"]
    assert added[0] == "+ made, err = func() ([]byte, error) {"
    assert added[3:] == [
        "+ }); ok {",
        "+ return second.TransformRequestBodyHeaders(ctx, apiName, payload, out)",
        "+ }",
        "+ return t.TransformRequestBody(ctx, apiName, payload)",
        "+ }()",
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_fits_another_order_of_statements_in_the_helper(tmp_path: Path, layout: str) -> None:
    before = laid_out(layout, SAMPLE, CHAT)
    for mutant in MUTANTS:
        folder = written(tmp_path / mutant.id, before)
        for path, content in fix(folder, mutant.rules).files.items():
            (folder / path).write_bytes(content)
        assert (mutant.id, go(folder, "gofmt", "-l", ".")) == (mutant.id, "")
        assert (mutant.id, go(folder, "go", "vet", "./...")) == (mutant.id, "")


def test_each_compiles_is_formatted_and_has_a_name_of_its_own(tmp_path: Path) -> None:
    assert len(MUTANT) == len(MUTANTS) == 10
    for mutant in MUTANTS:
        folder = written(tmp_path / mutant.id, SAMPLE)
        for path, content in fix(folder, mutant.rules).files.items():
            (folder / path).write_bytes(content)
        assert (mutant.id, go(folder, "gofmt", "-l", ".")) == (mutant.id, "")
        assert (mutant.id, go(folder, "go", "vet", "./...")) == (mutant.id, "")


def test_those_that_the_bundled_cases_can_tell_from_the_fix_are_marked() -> None:
    assert [mutant.id for mutant in MUTANTS if mutant.visible_at_runtime] == [
        "chat-in-retry",
        "empty-in-retry",
        "forgotten-forward-to-body-headers-transform",
    ]


@pytest.mark.usefixtures("cache_folder")
def test_the_tests_kill_the_most_hidden_mutant_and_not_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alive = Mutant("alive", "nothing is wrong about it", RULES)
    hidden = MUTANT["forgotten-forward-to-default-transform"]
    monkeypatch.setattr(mutants, "MUTANTS", (hidden, alive))
    # Its module is built and tested by the session; here the tests' own words are enough.
    monkeypatch.setattr(mutants, "FIX", Mutant("fix", "the fix itself", RULES))

    command.main(["mutants", f"--output={tmp_path / 'out'}"])

    found = msgspec.json.decode((tmp_path / "out/mutants.json").read_bytes(), type=MutantRun)
    killed, survives = found.mutants
    assert killed.killed_by == ["provider.TestRetryApiIdentityOfTheHelpersDefaultTransform"]
    assert survives.killed_by == []
    assert (found.fix.id, found.fix.killed_by, found.fix.visible_at_runtime) == ("fix", [], False)
    fix_patch, alive_patch = (
        (tmp_path / "out" / each.patch).read_bytes() for each in (found.fix, survives)
    )
    assert fix_patch == alive_patch
    assert survives.passed == found.tests_of_the_fix == killed.passed + 1
    assert (killed.module_sha256, killed.killed_at_runtime) == (None, None)
    assert killed.places == {rule.id: 1 for rule in hidden.rules}
    patch = (tmp_path / "out" / killed.patch).read_bytes()
    assert killed.patch_sha256 == sha256_of(patch)
    assert b"retry_api_identity" not in patch
    assert "forgotten-forward-to-default-transform: 1 tests fail in " in capsys.readouterr().out
    applied = subprocess.run(
        ["git", "apply", "--numstat", "-"], input=patch, capture_output=True, check=True
    )
    assert applied.stdout.split()[2::3] == [
        b"wasm/go/reference/provider/failover.go",
        b"wasm/go/reference/provider/retry.go",
    ]
    assert list((tmp_path / "cache" / "work").iterdir()) == []


@pytest.mark.usefixtures("cache_folder")
def test_no_regression_test_fails_on_a_fix_that_does_more_than_the_design(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    better = Mutant("better", "it keeps the base path", OF_THE_REFERENCE, visible_at_runtime=True)
    monkeypatch.setattr(mutants, "MUTANTS", (Mutant("fix", "the fix itself", RULES),))
    monkeypatch.setattr(mutants, "FIX", better)

    found, _ = mutants.run(Request(), lambda _: None)

    assert found.fix.killed_by == found.mutants[0].killed_by == []
    assert found.tests_of_the_fix > found.mutants[0].passed > 0


@pytest.mark.usefixtures("cache_folder")
def test_a_mutant_that_does_not_compile_is_no_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Mutant("broken", "it does not compile", MUTANTS[0].rules[:-1])
    monkeypatch.setattr(mutants, "FIX", broken)
    with pytest.raises(BuildError) as refused:
        mutants.run(Request(), lambda _: None)
    assert str(refused.value).startswith("the mutant broken could not be tried: ")
    assert "not enough arguments in call to c.transformRequestHeadersAndBody" in (
        refused.value.detail
    )


@pytest.mark.usefixtures("cache_folder")
def test_tests_that_do_not_compile_on_a_mutant_are_no_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    # It compiles itself, and is not built: only the tests of its helper find out.
    takes_text = replace(RULES[0], rewrite={"PROVIDER": "$PROVIDER, apiName any"})
    chat = [rule for rule in RULES[1:] if not rule.id.startswith("forward-to-")]
    used = replace(RULES[1], rewrite={"API": "apiName.(ApiName)"})
    broken = Mutant("broken", "its helper takes anything", (takes_text, used, *chat))
    monkeypatch.setattr(mutants, "MUTANTS", (broken,))
    monkeypatch.setattr(mutants, "FIX", Mutant("fix", "the fix itself", RULES))
    with pytest.raises(BuildError) as refused:
        mutants.run(Request(), lambda _: None)
    assert str(refused.value).startswith(
        "the mutant broken could not be tried: the regression tests could not be run (go test "
        "ended with status 1): "
    )
    assert "/provider did not compile; expected each to end in pass or fail" in str(refused.value)


def showing(passed: list[str], failed: list[str]) -> Showing:
    return Showing(command=[], status=int(bool(failed)), passed=passed, failed=failed, skipped=[])


ALL = ["TestRetryApiIdentity", "TestRetryApiIdentity/module/wasm/x", "provider.TestA/x"]


@pytest.mark.parametrize(
    ("visible", "shown", "due"),
    [
        pytest.param(True, showing(ALL[:2], ALL[2:]), None, id="all of them"),
        pytest.param(False, showing([ALL[0]], ALL[2:]), None, id="the module was not built"),
        pytest.param(True, showing([ALL[0]], ALL[2:]), ALL[1], id="those of the module missing"),
        pytest.param(False, showing([], ALL[:2]), ALL[2], id="one missing, another failing"),
    ],
)
def test_a_mutant_is_killed_by_the_tests_of_the_fix_and_no_fewer(
    shown: Showing, due: str | None, *, visible: bool
) -> None:
    mutant = Mutant("m", "", RULES, visible_at_runtime=visible)
    if due is None:
        mutants._refuse_fewer(mutant, shown, showing(ALL, []))
        return
    with pytest.raises(BuildError) as refused:
        mutants._refuse_fewer(mutant, shown, showing(ALL, []))
    assert str(refused.value) == (
        "the mutant m could not be tried: 1 regression tests that pass on the fix did not run on "
        f"it, first {due}; expected each to end in pass or fail"
    )


@pytest.mark.usefixtures("cache_folder")
def test_a_source_that_the_fix_does_not_fit_is_refused_with_advice_that_can_be_taken(
    checkout: Checkout,
) -> None:
    with pytest.raises(SourceError) as refused:
        mutants.run(Request(source=str(checkout.path), plugin=checkout.plugin), print)
    assert str(refused.value) == (
        "extensions/tiny/provider holds no Go files, expected the package provider of the plugin; "
        "name the plugin's folder by --source and --plugin"
    )
    for path, text in AFTER.items():
        checkout.write(f"{checkout.plugin}/{path}", text)
    checkout.commit()
    with pytest.raises(SourceError) as fixed:
        mutants.run(Request(source=str(checkout.path), plugin=checkout.plugin), print)
    assert str(fixed.value).endswith(
        "takes an ApiName; name a --baseline-ref that the built-in fix fits, which is what this "
        "session is about"
    )


def test_tests_that_fail_on_the_fix_itself_catch_nothing(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Mutant("fix", "", MUTANT["forgotten-forward-to-default-transform"].rules)
    monkeypatch.setattr(mutants, "FIX", wrong)
    with pytest.raises(BuildError) as refused:
        mutants.run(Request(), lambda _: None)
    assert str(refused.value) == (
        "1 regression tests fail on the fix itself and 0 are skipped; expected all to pass, or "
        "they catch nothing; see the lines above"
    )
    assert "TestRetryApiIdentityOfTheHelpersDefaultTransform" in refused.value.detail
    assert list((cache_folder / "work").iterdir()) == []


def test_another_fix_is_refused() -> None:
    with pytest.raises(SourceError, match="--fixed-ref was given; expected the built-in fix"):
        mutants.run(Request(fixed_ref="v2"), print)
