"""The regression tests as files, and what is made of what they showed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from wasm.fix_4396 import regression
from wasm.fix_4396.regression import FOLDER, Compared, Showing
from wasm.foundation.errors import BuildError, SourceError
from wasm.golang import go_vet, toolchain
from wasm.gotest.test_events import Reading

if TYPE_CHECKING:
    from pathlib import Path

BEHAVIOUR = ["provider/retry_api_identity_test.go", "retry_api_identity_test.go"]
SIGNATURE = "provider/retry_api_identity_signature_test.go"


def showing(**changes: Any) -> Showing:
    """What the tests show where all is right."""
    fields: dict[str, Any] = {"command": ["go", "test"], "status": 0, "failed": [], "skipped": []}
    return Showing(**{**fields, "passed": ["TestA", "TestA/x", "TestA/x/y", CONTROL], **changes})


CONTROL = "p.TestB/openai/v1/chatcompletions"
BASELINE = showing(status=1, passed=[CONTROL], failed=["TestA", "TestA/x", "TestA/x/y"])


def test_only_those_that_need_behaviour_alone_are_laid_over_a_baseline() -> None:
    assert sorted(regression.files(with_the_fix=False)) == BEHAVIOUR
    assert sorted(regression.files(with_the_fix=True)) == sorted([SIGNATURE, *BEHAVIOUR])


def test_those_for_a_baseline_do_not_name_the_helper() -> None:
    named = {
        name: b"transformRequestHeadersAndBody" in content
        for name, content in regression.files(with_the_fix=True).items()
    }
    assert named == {SIGNATURE: True, BEHAVIOUR[0]: False, BEHAVIOUR[1]: False}


def test_they_are_formatted() -> None:
    assert go_vet.unformatted(toolchain.locate(), FOLDER) == frozenset()


def test_none_imports_a_plugin_or_defines_test_main() -> None:
    for content in regression.files(with_the_fix=True).values():
        text = content.decode()
        imported = set(re.findall(r'^\t"([^"]+\.[^"]+)"$', text, re.MULTILINE))
        assert imported
        assert {path.split("/")[1] for path in imported} <= {"higress-group", "stretchr", "tidwall"}
        assert "func TestMain(" not in text


def test_each_is_chosen_by_the_selection() -> None:
    texts = [content.decode() for content in regression.files(with_the_fix=True).values()]
    names = re.findall(r"^func (Test\w*)", "\n".join(texts), re.MULTILINE)
    assert len(names) == 9
    assert all(re.match(regression.SELECTION, name) for name in names)


def test_laying_over_writes_them_byte_for_byte(tmp_path: Path) -> None:
    regression.lay_over(tmp_path, with_the_fix=True)
    for name in [SIGNATURE, *BEHAVIOUR]:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()


def test_a_run_that_ended_badly_though_every_test_of_it_passed_shows_nothing() -> None:
    """As when go is killed at its very end, or cannot write its cache."""
    reading = Reading()
    for action in ({"Action": "pass", "Package": "p", "Test": "TestA"}, {"Action": "pass"}):
        reading.take(json.dumps({"Package": "p", **action}).encode())
    suite = reading.suite(["go", "test", "./..."], -9, 1.0, {"p": ["TestA"]})
    with pytest.raises(BuildError) as refused:
        regression._refuse_what_did_not_run(suite, reading)
    assert str(refused.value) == (
        "the regression tests could not be run (go test ended with status -9): no test failed; "
        "expected each to end in pass or fail, since what is not run shows nothing; see the lines "
        "above"
    )


def test_a_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / BEHAVIOUR[1]).write_text("package main\n")
    with pytest.raises(SourceError) as refused:
        regression.lay_over(tmp_path, with_the_fix=False)
    assert str(refused.value) == (
        "retry_api_identity_test.go is in the plugin's folder already; expected that name to be "
        "free for a regression test of the fix; name a --baseline-ref without it"
    )
    assert (tmp_path / BEHAVIOUR[1]).read_text() == "package main\n"


def test_what_fails_before_and_passes_after_is_told_from_what_passes_on_both() -> None:
    fixed = showing(passed=["TestA", "TestA/x", "TestA/x/y", CONTROL, "p.TestC", "p.TestC/z"])
    assert regression.compare(BASELINE, fixed) == Compared(
        fail_to_pass=["TestA/x/y"], pass_to_pass=[CONTROL], only_with_the_fix=["p.TestC/z"]
    )


@pytest.mark.parametrize(
    ("baseline", "fixed", "kind", "sentence"),
    [
        pytest.param(
            BASELINE,
            showing(status=1, failed=[CONTROL], output="it says"),
            BuildError,
            f"1 regression tests fail with the fix, first {CONTROL}; expected all to pass; "
            "see the lines above",
            id="one fails with the fix",
        ),
        pytest.param(
            BASELINE,
            showing(status=1),
            BuildError,
            "0 regression tests fail with the fix, first none by name; expected all to pass; "
            "see the lines above",
            id="a panic",
        ),
        pytest.param(
            BASELINE,
            showing(skipped=["TestA/wasm"]),
            BuildError,
            "1 regression tests did not run on both variants, first TestA/wasm; expected each to "
            "run: a test that is skipped proves nothing",
            id="one is skipped",
        ),
        pytest.param(
            BASELINE,
            showing(passed=[CONTROL]),
            BuildError,
            "3 regression tests did not run on both variants, first TestA; expected each to run: "
            "a test that is skipped proves nothing",
            id="some did not run",
        ),
        pytest.param(
            BASELINE,
            showing(passed=["TestA", "TestA/x", "TestA/x/y", "TestA/x/z", CONTROL]),
            BuildError,
            "1 regression tests did not run on both variants, first TestA/x/z; expected each to "
            "run: a test that is skipped proves nothing",
            id="a subtest that the baseline did not come to",
        ),
        pytest.param(
            showing(status=1, passed=["TestA", "TestA/x", "TestA/x/y"], failed=[CONTROL]),
            showing(),
            SourceError,
            "1 of 1 regression tests of what the defect leaves alone fail on the baseline, first "
            f"{CONTROL}; expected Chat Completions and the health check to be right there; name a "
            "--baseline-ref that has no more than the defect of #4396",
            id="red for another reason",
        ),
        pytest.param(
            showing(status=1, passed=[], failed=["TestA"]),
            showing(passed=["TestA"]),
            SourceError,
            "0 of 0 regression tests of what the defect leaves alone fail on the baseline, first "
            "there is none; expected Chat Completions and the health check to be right there; name "
            "a --baseline-ref that has no more than the defect of #4396",
            id="no control",
        ),
        pytest.param(
            showing(),
            showing(),
            SourceError,
            "all 4 regression tests pass on the baseline; expected some to fail on the defect of "
            "#4396; name a --baseline-ref that has it",
            id="no defect",
        ),
    ],
)
def test_what_proves_nothing_is_refused(
    baseline: Showing, fixed: Showing, kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind) as refused:
        regression.compare(baseline, fixed)
    assert str(refused.value) == sentence


TEST = "provider.TestRetryApiIdentityOfX"
FAILS_IN_MAIN = "func TestRetryApiIdentity(t *testing.T) { t.Error() }\n"


def plugin(folder: Path, test: str, in_main: str = FAILS_IN_MAIN) -> Path:
    """A plugin without dependencies, with regression tests of its own in both folders."""
    (folder / "provider").mkdir(parents=True)
    (folder / "go.mod").write_text("module tiny.example/plugin\n\ngo 1.24\n")
    (folder / "main.go").write_text("package main\n\nfunc main() {}\n")
    (folder / "main_test.go").write_text(f'package main\n\nimport "testing"\n\n{in_main}')
    (folder / "provider/provider.go").write_text("package provider\n")
    (folder / "provider/p_test.go").write_text(
        'package provider\n\nimport (\n\t"os"\n\t"testing"\n\t"time"\n)\n\n'
        f"var _, _ = os.Exit, time.Sleep\n\n{test}"
    )
    return folder


@pytest.mark.usefixtures("cache_folder")
def test_what_they_showed_is_read_with_the_module_named(tmp_path: Path) -> None:
    tiny = plugin(
        tmp_path / "tiny",
        "func TestRetryApiIdentityOfX(t *testing.T) {\n"
        '\tt.Run("passes", func(t *testing.T) {\n'
        '\t\tt.Logf("a retry with providerBasePath: kept=false path=/v1/x?trace=1")\n\t})\n'
        '\tt.Run("fails", func(t *testing.T) { t.Error(os.Getenv("WASM_FILE_PATH")) })\n'
        '\tt.Run("skips", func(t *testing.T) { t.Skip() })\n}\n\n'
        "func TestOther(t *testing.T) { t.Fatal() }\n",
    )
    shown = regression.run(toolchain.locate(), tiny, "/the/module.wasm")
    assert shown.failed == ["TestRetryApiIdentity", TEST, f"{TEST}/fails"]
    assert (shown.passed, shown.skipped) == ([f"{TEST}/passes"], [f"{TEST}/skips"])
    assert shown.base_path == {"/v1/x?trace=1": False}
    assert "/the/module.wasm" in shown.output
    assert shown.status == 1
    assert shown.command == [
        *("go", "test", "-json", "-count=1", "-timeout=10m", "-run=^TestRetryApiIdentity"),
        *("-exec=python exec_wrapper.py", ".", "./provider"),
    ]
    without = regression.run(toolchain.locate(), tiny, None)
    assert "/dev/null" in replace(without, seconds=0).output


# What a Wasm guest does to the test program (wasm/gotest/exec_wrapper.py): from then on, whatever
# finds the pipe to `go test` full is dropped. The reader is made to be late by far more than a pipe
# holds.
FLOODS = """
func TestRetryApiIdentityOfX(t *testing.T) {
	syscall.SetNonblock(1, true)
	for number := 0; number < 20000; number++ {
		t.Run("n", func(t *testing.T) { t.Log(strings.Repeat("x", 200)) })
	}
}
"""


@pytest.mark.usefixtures("cache_folder")
def test_no_result_is_lost_where_a_guest_makes_the_pipe_non_blocking(tmp_path: Path) -> None:
    tiny = plugin(tmp_path / "tiny", "")
    imports = 'import (\n\t"strings"\n\t"syscall"\n\t"testing"\n)\n'
    (tiny / "provider/p_test.go").write_text(f"package provider\n\n{imports}{FLOODS}")

    shown = regression.run(toolchain.locate(), tiny, None)

    assert len(shown.passed) == 20_001
    assert shown.failed == ["TestRetryApiIdentity"]


@pytest.mark.usefixtures("cache_folder")
def test_a_test_of_the_same_name_in_both_folders_is_two(tmp_path: Path) -> None:
    same = "func TestRetryApiIdentity(t *testing.T) {}\n"
    tiny = plugin(tmp_path / "tiny", same)
    go_mod = (tiny / "go.mod").read_text()
    (tiny / "go.mod").write_text(go_mod.replace("/plugin", "/plugin/provider"))

    shown = regression.run(toolchain.locate(), tiny, None)

    assert shown.passed == ["provider.TestRetryApiIdentity"]
    assert shown.failed == ["TestRetryApiIdentity"]


X = "func TestRetryApiIdentityOfX(t *testing.T) {{ {} }}\n"
Y = "func TestRetryApiIdentityOfY(t *testing.T) {}\n"


@pytest.mark.parametrize(
    ("test", "reason", "shown"),
    [
        pytest.param(X.format("nope()"), "did not compile", "undefined: nope", id="no Go"),
        pytest.param(
            X.format('t.Errorf("%d", "x")'), "did not compile", "wrong type string", id="vet"
        ),
        pytest.param(X.format('panic("boom")'), "ended in `panic: boom", "panic: boom", id="panic"),
        pytest.param(
            Y + X.format('panic("boom")'),
            "ended in `panic: boom",
            "panic: boom",
            id="panic at last",
        ),
        pytest.param(
            X.format('go panic("boom"); time.Sleep(time.Minute)'),
            "ended in `panic: boom",
            "panic: boom",
            id="a panic elsewhere",
        ),
        pytest.param(
            X.format("") + 'func TestMain(m *testing.M) { panic("boom") }\n',
            "ended in `panic: boom",
            "panic: boom",
            id="a panic in TestMain",
        ),
        pytest.param(
            X.format("") + "func TestMain(m *testing.M) { m.Run(); os.Exit(1) }\n",
            "failed, and no test of it did",
            "FAIL",
            id="a TestMain that fails",
        ),
        pytest.param(
            X.format("") + "func TestMain(m *testing.M) { os.Exit(0) }\n",
            " did not run to its end",
            "",
            id="a TestMain that runs nothing",
        ),
        pytest.param(
            X.format("os.Exit(3)") + Y,
            "ended in the middle of TestRetryApiIdentityOfX",
            "",
            id="an exit",
        ),
        pytest.param(
            X.format("time.Sleep(time.Minute)"),
            "ended in `panic: test timed out after 2s`",
            "panic: test timed out after 2s",
            id="a time-out",
        ),
    ],
)
@pytest.mark.usefixtures("cache_folder")
def test_what_is_no_failing_test_is_not_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str, reason: str, shown: str
) -> None:
    monkeypatch.setattr(regression, "_TIMEOUT", "2s")
    tiny = plugin(tmp_path / "tiny", test)  # the test in main fails, as one should

    with pytest.raises(BuildError) as refused:
        regression.run(toolchain.locate(), tiny, None)

    head = "the regression tests could not be run (go test ended with status 1): "
    assert str(refused.value).startswith(
        f"{head}tiny.example/plugin/provider {reason}".replace("  ", " ")
    )
    assert str(refused.value).endswith(
        "; expected each to end in pass or fail, since what is not run shows nothing; see the "
        "lines above"
    )
    assert shown in refused.value.detail


@pytest.mark.usefixtures("cache_folder")
def test_a_folder_without_a_regression_test_shows_nothing(tmp_path: Path) -> None:
    tiny = plugin(tmp_path / "tiny", "func TestOther(t *testing.T) {}\n")
    with pytest.raises(BuildError) as refused:
        regression.run(toolchain.locate(), tiny, None)
    assert str(refused.value) == (
        "Go finds no regression test in ./provider of the plugin's folder; expected those that "
        "were laid there; see what `go list ./...` says in it"
    )


def test_those_of_the_module_are_told_from_others() -> None:
    names = ["TestRetryApiIdentity/module", "TestRetryApiIdentity/module/wasm"]
    others = ["TestRetryApiIdentity", "TestRetryApiIdentity/native", "provider.TestX/module"]
    assert [name for name in (*names, *others) if regression.is_of_the_module(name)] == names
