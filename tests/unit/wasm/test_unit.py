"""A plugin's own Go tests: what ran is counted, and what did not run is no success."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from wasm.foundation.errors import BuildError
from wasm.golang import toolchain
from wasm.gotest import unit
from wasm.gotest.fast_sdk import Speed
from wasm.gotest.test_events import Suite
from wasm.gotest.unit import UnitRun
from wasm.module.build import build
from wasm.records import Module, Variant
from wasm.source import variant_tree
from wasm.source.variant_tree import Request

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.wasm.conftest import Checkout, RunWasm

BASELINE, FIXED = Variant
GO_TEST = ["go", "test", "-json", "-count=1", "-timeout=60m", "-exec=python exec_wrapper.py"]


def run_of(*suites: Suite, **changed: object) -> UnitRun:
    run = UnitRun(
        variant=FIXED,
        module_sha256="",
        commit="",
        files_sha256="",
        baseline_files_sha256="",
        go_version="",
        vet=[],
        vet_of_baseline=[],
        suites=list(suites),
    )
    return replace(run, **changed)  # type: ignore[arg-type]


def refusal(run: UnitRun, log: str = "") -> BuildError:
    with pytest.raises(BuildError) as caught:
        unit.refuse_failures(run, log)
    return caught.value


# What is no success ----------------------------------------------------------------------------

PASSED = Suite(command=[*GO_TEST, "./..."], status=0, passed=1)


def test_a_suite_that_ran_and_passed_is_a_success() -> None:
    unit.refuse_failures(run_of(PASSED), "unit.log")


def test_a_suite_that_is_no_success_is_told_with_what_to_look_at() -> None:
    nothing = replace(PASSED, passed=0)
    failing = replace(PASSED, failed=["p.TestBad"], output="got 1, want 2")

    assert refusal(run_of(nothing)).sentence == (
        "go test ./... on the fixed variant: no test ran; expected every test to run and pass"
    )
    assert refusal(run_of(nothing), "unit.log").sentence.endswith("run and pass; see unit.log")
    error = refusal(run_of(PASSED, failing), "unit.log")
    assert error.sentence == (
        "go test ./... on the fixed variant: 1 tests failed, first p.TestBad; expected every test "
        "to run and pass; see the lines above and unit.log"
    )
    assert error.detail == "got 1, want 2"


def test_what_vet_finds_on_the_fixed_variant_alone_is_no_success() -> None:
    run = run_of(PASSED, vet=["./main.go: self-assignment of x to x"])

    error = refusal(run)

    assert error.sentence == (
        "go vet finds 1 things on the fixed variant that the baseline does not have; expected "
        "none; see the lines above"
    )
    assert error.detail == "./main.go: self-assignment of x to x"


# Running them -----------------------------------------------------------------------------------

TEST_GO = """package main

import (
	"os"
	"testing"
)

func TestOutside(t *testing.T) {
	data, err := os.ReadFile("%s")
	if err != nil || string(data) != "right" {
		t.Fatalf("read %%q, %%v", data, err)
	}
}

func TestModule(t *testing.T) {
	module, err := os.ReadFile(os.Getenv("WASM_FILE_PATH"))
	if err != nil {
		t.Skip("no wasm file")
	}
	if string(module[:4]) != "\\x00asm" {
		t.Fatal("no module")
	}
}
"""


@pytest.fixture
def outside(checkout: Checkout, tmp_path: Path) -> Path:
    """A file outside the source that a test of the plugin reads."""
    file = tmp_path / "outside.txt"
    file.write_text("right")
    checkout.write(f"{checkout.plugin}/main_test.go", TEST_GO % file)
    checkout.commit()
    return file


def run(checkout: Checkout) -> UnitRun:
    request = Request(source=str(checkout.path), plugin=checkout.plugin, fixed_ref="HEAD")
    return unit.run(FIXED, request, lambda _: None)


def test_the_tests_run_against_the_module_and_a_changed_file_outside_runs_them_again(
    checkout: Checkout, outside: Path, cache_folder: Path
) -> None:
    first = run(checkout)
    outside.write_text("wrong")

    second = run(checkout)

    unit.refuse_failures(first)
    [suite] = first.suites
    assert suite.command == [*GO_TEST, "./..."]
    assert (suite.status, suite.passed, suite.skipped) == (0, 2, [])
    assert (first.vet, first.vet_of_baseline) == ([], [])
    assert first.module_sha256 == second.module_sha256
    assert second.suites[0].failed == ["tiny.example/plugin.TestOutside"]
    assert 'read "wrong"' in second.suites[0].output
    assert list((cache_folder / "work").iterdir()) == []


@pytest.mark.usefixtures("outside", "cache_folder")
def test_no_variable_of_a_shell_reaches_the_tests(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in {
        "GOFLAGS": "-run=Nope",
        "GOOS": "wasip1",
        "GOARCH": "wasm",
        "WASM_FILE_PATH": "/nowhere/main.wasm",
    }.items():
        monkeypatch.setenv(key, value)
    toolchain.locate.cache_clear()

    assert [(suite.status, suite.passed) for suite in run(checkout).suites] == [(0, 2)]


@pytest.mark.usefixtures("cache_folder")
def test_go_tests_run_with_the_go_that_builds_the_module(checkout: Checkout) -> None:
    checkout.write(
        f"{checkout.plugin}/go.mod",
        "module tiny.example/tiny\n\ngo 1.24\n\ntoolchain go1.24.4\n",
    )
    checkout.write(
        f"{checkout.plugin}/main_test.go",
        'package main\n\nimport (\n\t"runtime"\n\t"testing"\n)\n\n'
        "func TestGo(t *testing.T) {\n"
        '\tif runtime.Version() != "go1.24.4" {\n\t\tt.Fatal(runtime.Version())\n\t}\n}\n',
    )
    checkout.commit()

    found = run(checkout)

    unit.refuse_failures(found)
    assert found.go_version.startswith("go version go1.24.4 ")
    assert found.environment["GOTOOLCHAIN"] == "go1.24.4"


@pytest.mark.usefixtures("cache_folder")
def test_a_run_that_matches_no_test_ends_with_0_and_is_refused(checkout: Checkout) -> None:
    checkout.write(f"{checkout.plugin}/main_test.go", "package main\n")

    found = run(checkout)

    assert [(suite.status, suite.passed) for suite in found.suites] == [(0, 0)]
    assert "no test ran" in refusal(found).sentence


@pytest.mark.usefixtures("cache_folder")
def test_findings_that_the_baseline_has_too_are_not_the_fixs(checkout: Checkout) -> None:
    old = 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Printf("%d\\n", "old") }\n'
    checkout.write(f"{checkout.plugin}/main.go", old)
    checkout.write(f"{checkout.plugin}/main_test.go", "package main\n")
    base = checkout.commit()
    new = old.replace("func main", "\n// moved\nfunc main").replace(
        '"old")', '"old"); fmt.Printf("%d\\n", "new")'
    )
    checkout.write(f"{checkout.plugin}/main.go", new)
    fixed = checkout.commit()
    request = Request(
        source=str(checkout.path), plugin=checkout.plugin, baseline_ref=base, fixed_ref=fixed
    )

    found = unit.run(FIXED, request, lambda _: None)

    assert len(found.vet_of_baseline) == 1
    assert '"old"' in found.vet_of_baseline[0]
    assert len(found.vet) == 1
    assert '"new"' in found.vet[0]


# A package of its own, for a fix to remove.
INNER = {
    "inner/inner.go": "package inner\n",
    "inner/inner_test.go": """package inner

import "testing"

func TestInner(t *testing.T) {}
""",
}
RUNS_NOTHING = """
func TestMain(m *testing.M) { os.Exit(0) }
"""


@pytest.mark.usefixtures("cache_folder")
def test_a_package_whose_tests_a_fix_removes_is_missed(checkout: Checkout, outside: Path) -> None:
    assert outside.exists()
    for name, content in INNER.items():
        checkout.write(f"{checkout.plugin}/{name}", content)
    base = checkout.commit()
    checkout.git("rm", "--quiet", f"{checkout.plugin}/inner/inner_test.go")
    fixed = checkout.commit()
    request = Request(
        source=str(checkout.path), plugin=checkout.plugin, baseline_ref=base, fixed_ref=fixed
    )

    found = unit.run(FIXED, request, lambda _: None)

    [suite] = found.suites
    assert (suite.status, suite.passed) == (0, 2)
    assert suite.missing == ["tiny.example/plugin/inner"]
    assert refusal(found).sentence == (
        "go test ./... on the fixed variant: 1 did not run that should have, first "
        "tiny.example/plugin/inner; expected every test to run and pass"
    )
    assert unit.run(BASELINE, request, lambda _: None).suites[0].missing == []


@pytest.mark.usefixtures("outside", "cache_folder")
def test_a_package_that_ends_with_0_and_runs_none_of_its_tests_is_missed(
    checkout: Checkout,
) -> None:
    for name, content in INNER.items():
        checkout.write(f"{checkout.plugin}/{name}", content)
    tests = checkout.path / checkout.plugin / "main_test.go"
    tests.write_text(tests.read_text() + RUNS_NOTHING)
    checkout.commit()

    [suite] = run(checkout).suites

    assert (suite.status, suite.passed) == (0, 1)
    assert suite.missing == ["tiny.example/plugin"]


SLOW_GO = """package main

import (
	"testing"
	"time"
)

func TestQuick(t *testing.T) {}

func TestSlow(t *testing.T) { time.Sleep(500 * time.Millisecond) }
"""


@pytest.mark.usefixtures("cache_folder")
def test_tests_that_a_fix_takes_away_are_told(checkout: Checkout) -> None:
    checkout.write(f"{checkout.plugin}/main_test.go", SLOW_GO)
    before = checkout.commit()
    kept = SLOW_GO.replace("func TestQuick", "func quick").replace("500 *", "1 *")
    checkout.write(f"{checkout.plugin}/main_test.go", kept)
    checkout.commit()
    request = Request(
        source=str(checkout.path), plugin=checkout.plugin, baseline_ref=before, fixed_ref="HEAD"
    )
    said: list[str] = []

    unit.run(FIXED, request, said.append)

    first = "tiny.example/plugin.TestQuick"
    assert f"fixed: 1 tests of the baseline are not declared here, first {first}" in said


@pytest.mark.usefixtures("cache_folder")
def test_progress_is_told_while_nothing_comes(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.write(f"{checkout.plugin}/main_test.go", SLOW_GO)
    monkeypatch.setattr(unit, "_PROGRESS_S", 0.1)
    request = Request(source=str(checkout.path), plugin=checkout.plugin, fixed_ref="HEAD")
    checkout.commit()
    said: list[str] = []
    written: list[str] = []

    unit.run(FIXED, request, said.append, written.append)

    assert any(line.startswith("go test ./...: 1 passed after ") for line in said)
    assert said[-1].startswith("go test ./...: 2 passed, 0 failed, 0 skipped in ")
    log = "".join(written)
    assert log.startswith(f"# {' '.join(GO_TEST)} ./...\n")
    assert "--- PASS: TestSlow" in log


def suite_without_a_module(request: Request, declared: dict[str, tuple[str, ...]]) -> Suite:
    with variant_tree.taken_out(BASELINE, request) as tree:
        nowhere = Module(
            variant=BASELINE,
            path=str(tree.root / "nowhere.wasm"),
            sha256="",
            size_bytes=0,
            source=tree.source,
            go_version="",
            command=[],
            environment={},
            seconds=0.0,
        )
        job = unit._Job(toolchain.locate(), tree, nowhere, Speed())
        return unit._suite(job, "./...", declared, lambda _: None, lambda _: None)


@pytest.mark.usefixtures("cache_folder")
@pytest.mark.parametrize("file", ["main_test.go", "testdata/input.json", "go.mod"])
def test_results_belong_to_every_file_that_the_tests_see(checkout: Checkout, file: str) -> None:
    """T40: the module is the same to the last byte."""
    where = Request(source=str(checkout.path), plugin=checkout.plugin)
    path = checkout.path / checkout.plugin / file
    found = []
    for content in ("package main\n", "package main\n\nfunc init() {}\n"):
        before = path.read_text() if file == "go.mod" else content
        checkout.write(f"{checkout.plugin}/{file}", f"{before}\n" if file == "go.mod" else content)
        checkout.commit()
        found.append(unit.run(BASELINE, where, lambda _: None, plain=True))
    assert found[0].module_sha256 == found[1].module_sha256
    assert found[0].files_sha256 != found[1].files_sha256
    assert found[0].commit != found[1].commit


@pytest.mark.usefixtures("outside", "cache_folder")
def test_tests_that_skip_themselves_for_want_of_the_module_are_no_success(
    checkout: Checkout,
) -> None:
    request = Request(source=str(checkout.path), plugin=checkout.plugin)

    suite = suite_without_a_module(request, {"tiny.example/plugin": ("TestModule", "TestOutside")})

    assert (suite.status, suite.passed, suite.missing) == (0, 1, [])
    assert suite.skipped_in_wasm == suite.skipped == ["tiny.example/plugin.TestModule"]
    assert refusal(run_of(suite)).sentence == (
        "go test ./... on the fixed variant: 1 tests of the module were skipped, first "
        "tiny.example/plugin.TestModule; expected every test to run and pass"
    )


@pytest.mark.usefixtures("cache_folder")
def test_the_references_own_tests_fail_without_the_module() -> None:
    suite = suite_without_a_module(Request(), {})

    assert suite.status == 1
    assert "nowhere.wasm" in suite.output
    assert suite.problem == "it ended with status 1"


def test_the_command_runs_the_references_tests_natively_and_in_wasm(
    run_wasm: RunWasm, tmp_path: Path, cache_folder: Path
) -> None:
    record = tmp_path / "unit.json"

    ended = run_wasm("unit", "--variant=fixed", f"--output={record}")

    assert (ended.status, ended.stderr) == (0, "")
    found = msgspec.json.decode(record.read_bytes(), type=UnitRun)
    assert [suite.command[-1] for suite in found.suites] == ["./provider", "./..."]
    assert all(suite.passed > 50 and not suite.skipped for suite in found.suites)
    lines = ended.stdout.splitlines()
    told = [line for line in lines if " passed after " not in line]
    assert told[0] == f"fixed: module {found.module_sha256[:12]}"
    assert told[1] == "fixed: go vet: 0 findings, 0 of them the baseline's"
    module = build(FIXED, Request())
    assert (found.commit, found.files_sha256) == (module.source.commit, module.source.files_sha256)
    assert module.source.fix is not None
    assert found.baseline_files_sha256 == module.source.fix.baseline_sha256
    assert found.fast_sdk is not None
    assert told[2] == (
        f"fixed: tests share what they compile: proxywasm/proxytest/wasmwrapper.go of "
        f"{found.fast_sdk.module} was changed"
    )
    assert told[4].startswith(f"go test ./...: {found.suites[1].passed} passed, 0 failed, 0 skip")
    fast = "go test -json -count=1 -timeout=15m -exec=python exec_wrapper.py -modfile=fast.mod"
    assert " ".join(found.suites[1].command) == f"{fast} ./..."
    log = record.with_suffix(".log").read_text()
    assert f"# {fast} ./provider\n" in log
    assert "--- PASS: TestReferenceCohereRequest" in log
    assert list((cache_folder / "work").iterdir()) == []


def test_plain_runs_the_bare_command_and_records_that_it_was_asked_to(
    checkout: Checkout, outside: Path, run_wasm: RunWasm, tmp_path: Path
) -> None:
    assert outside.exists()
    record = tmp_path / "unit.json"
    where = [f"--source={checkout.path}", f"--plugin={checkout.plugin}"]

    ended = run_wasm("unit", "--variant=baseline", f"--output={record}", "--plain", *where)

    assert (ended.status, ended.stderr) == (0, "")
    found = msgspec.json.decode(record.read_bytes(), type=UnitRun)
    assert (found.fast_sdk, found.plain_because) == (None, "--plain was given")
    assert found.suites[0].command == [*GO_TEST, "./..."]
    assert "baseline: tests run on the SDK as it is: --plain was given" in ended.stdout


def test_the_command_ends_with_2_and_the_failing_tests_lines_and_still_writes_its_record(
    checkout: Checkout, outside: Path, run_wasm: RunWasm, tmp_path: Path
) -> None:
    outside.write_text("wrong")
    record = tmp_path / "unit.json"

    ended = run_wasm(
        "unit",
        "--variant=baseline",
        f"--output={record}",
        f"--source={checkout.path}",
        f"--plugin={checkout.plugin}",
    )

    assert ended.status == 2
    assert 'read "wrong"' in ended.stderr
    assert ended.last_line == (
        "error: go test ./... on the baseline variant: 1 tests failed, first "
        "tiny.example/plugin.TestOutside; expected every test to run and pass; see the lines above "
        "and unit.log"
    )
    assert msgspec.json.decode(record.read_bytes(), type=UnitRun).suites[0].status == 1
