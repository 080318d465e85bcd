"""The regression tests as files, and what is made of what they showed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from wasm import findings, regression, toolchain
from wasm.errors import BuildError, SourceError
from wasm.regression import FOLDER, Compared, Showing

if TYPE_CHECKING:
    from pathlib import Path

BEHAVIOUR = ["provider/retry_api_identity_test.go", "retry_api_identity_test.go"]
SIGNATURE = "provider/retry_api_identity_signature_test.go"


def showing(**changes: Any) -> Showing:
    """What the tests show where all is right."""
    fields: dict[str, Any] = {"command": ["go", "test"], "status": 0, "failed": [], "skipped": []}
    return Showing(**{**fields, "passed": ["TestA", "TestA/x", "TestA/x/y", "p.TestB"], **changes})


BASELINE = showing(status=1, passed=["p.TestB"], failed=["TestA", "TestA/x", "TestA/x/y"])


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
    assert findings.unformatted(toolchain.locate(), FOLDER) == frozenset()


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
    fixed = showing(passed=["TestA", "TestA/x", "TestA/x/y", "p.TestB", "p.TestC", "p.TestC/z"])
    assert regression.compare(BASELINE, fixed) == Compared(
        fail_to_pass=["TestA/x/y"], pass_to_pass=["p.TestB"], only_with_the_fix=["p.TestC/z"]
    )


@pytest.mark.parametrize(
    ("baseline", "fixed", "kind", "sentence"),
    [
        pytest.param(
            BASELINE,
            showing(status=1, failed=["p.TestB"], output="it says"),
            BuildError,
            "1 regression tests fail with the fix, first p.TestB; expected all to pass; "
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
            showing(passed=["p.TestB"]),
            BuildError,
            "3 regression tests did not run on both variants, first TestA; expected each to run: "
            "a test that is skipped proves nothing",
            id="some did not run",
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


def plugin(folder: Path, test: str) -> Path:
    """A plugin without dependencies, with one regression test of its own."""
    (folder / "provider").mkdir(parents=True)
    (folder / "go.mod").write_text("module tiny.example/plugin\n\ngo 1.24\n")
    (folder / "main.go").write_text("package main\n\nfunc main() {}\n")
    (folder / "provider/provider.go").write_text("package provider\n")
    (folder / "provider/p_test.go").write_text(
        f'package provider\n\nimport (\n\t"os"\n\t"testing"\n)\n\n{test}'
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
    test = "provider.TestRetryApiIdentityOfX"
    assert shown.failed == [test, f"{test}/fails"]
    assert (shown.passed, shown.skipped) == ([f"{test}/passes"], [f"{test}/skips"])
    assert shown.base_path == {"/v1/x?trace=1": False}
    assert "/the/module.wasm" in shown.output
    assert shown.status == 1
    without = regression.run(toolchain.locate(), tiny, None)
    assert "/dev/null" in replace(without, seconds=0).output


@pytest.mark.usefixtures("cache_folder")
def test_tests_that_do_not_compile_are_no_failing_tests(tmp_path: Path) -> None:
    tiny = plugin(tmp_path / "tiny", "func TestRetryApiIdentityOfX(t *testing.T) { nope() }\n")
    with pytest.raises(BuildError) as refused:
        regression.run(toolchain.locate(), tiny, None)
    assert str(refused.value) == (
        "the regression tests could not be run (go test ended with status 1); expected them to "
        "compile in the plugin's tree; see the lines above"
    )
    assert "undefined: nope" in refused.value.detail
