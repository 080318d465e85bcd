"""A plugin's own Go tests: what ran is counted, and what did not run is no success."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from wasm import source, toolchain, unit
from wasm.errors import BuildError
from wasm.records import Module, Variant
from wasm.source import Request
from wasm.unit import Suite, UnitRun, read_events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.wasm.conftest import Checkout, RunWasm

BASELINE, FIXED = Variant
GO_TEST = ["go", "test", "-json", "-count=1", "-timeout=60m"]


def event(action: str, test: str = "", output: str = "", package: str = "p") -> bytes:
    row = {"Action": action, "Package": package, "Test": test, "Output": output}
    return json.dumps({key: value for key, value in row.items() if value}).encode() + b"\n"


def suite_of(*lines: bytes, status: int = 0) -> Suite:
    return read_events(GO_TEST, status, lines, 1.23456)


def run_of(suite: Suite, **changed: object) -> UnitRun:
    run = UnitRun(
        variant=FIXED,
        module_sha256="",
        go_version="",
        vet=[],
        vet_of_baseline=[],
        suites=[suite],
    )
    return replace(run, **changed)  # type: ignore[arg-type]


def refusal(run: UnitRun) -> BuildError:
    with pytest.raises(BuildError) as caught:
        unit.refuse_failures(run)
    return caught.value


# Reading events ---------------------------------------------------------------------------------


def test_tests_are_counted_subtests_included_and_packages_not() -> None:
    suite = suite_of(
        event("run", "TestA"),
        event("output", "TestA", "=== RUN TestA\n"),
        event("pass", "TestA/sub"),
        event("pass", "TestA"),
        event("pass", "TestA", package="q"),
        event("pass"),
    )

    assert (suite.passed, suite.failed, suite.skipped, suite.problem) == (3, [], [], "")
    assert (suite.command, suite.seconds, suite.output) == (GO_TEST, 1.235, "")
    unit.refuse_failures(run_of(suite))


def test_no_test_at_all_is_no_success() -> None:
    suite = suite_of(event("output", output="ok p 0.1s [no tests to run]\n"), event("pass"))

    assert suite.problem == "no test ran"
    assert refusal(run_of(suite)).sentence == (
        "go test -json -count=1 -timeout=60m on the fixed variant: no test ran; expected every "
        "test to run and pass; see the lines above"
    )


def test_a_failing_test_is_named_with_its_own_lines() -> None:
    suite = suite_of(
        event("output", "TestGood", "noise of a good test\n"),
        event("pass", "TestGood"),
        event("output", "TestBad", "got 1, want 2\n"),
        event("fail", "TestBad"),
        event("fail"),
        status=1,
    )

    assert suite.failed == ["p.TestBad"]
    assert suite.problem == "1 tests failed, first p.TestBad"
    assert refusal(run_of(suite)).detail == "got 1, want 2"


def test_a_package_that_does_not_compile_is_told_with_the_compilers_lines() -> None:
    build = {"ImportPath": "p [p.test]", "Action": "build-output", "Output": "./a.go:3: wrong\n"}
    ended = {"ImportPath": "p [p.test]", "Action": "build-fail"}

    suite = suite_of(
        json.dumps(build).encode(),
        json.dumps(ended).encode(),
        event("pass", "TestGood", package="q"),
        event("fail"),
        status=1,
    )

    assert suite.problem == "it ended with status 1"
    assert suite.output == "./a.go:3: wrong"


def test_what_is_no_event_is_gos_own_message() -> None:
    suite = suite_of(b"go: no such package\n", b"12\n", b"\xff\xfe\n", status=1)

    assert suite.output == "go: no such package\n12\n\ufffd\ufffd"
    assert suite.problem == "it ended with status 1"


def test_a_skipped_test_of_the_module_is_no_success_and_another_skipped_one_is() -> None:
    ran = event("pass", "TestA")
    other = suite_of(ran, event("output", "TestB", "needs a network\n"), event("skip", "TestB"))
    by_name = suite_of(ran, event("skip", "TestC/wasm"))
    by_reason = suite_of(
        ran, event("output", "TestD", "    main_test.go:3: no Wasm file\n"), event("skip", "TestD")
    )

    assert (other.skipped, other.skipped_in_wasm, other.problem) == (["p.TestB"], [], "")
    assert by_name.problem == "1 tests of the module were skipped, first p.TestC/wasm"
    assert by_reason.problem == "1 tests of the module were skipped, first p.TestD"


def test_what_vet_finds_on_the_fixed_variant_alone_is_no_success() -> None:
    run = run_of(suite_of(event("pass", "TestA")), vet=["./main.go: self-assignment of x to x"])

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
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "go.work").write_text("go 1.24\nuse ./nowhere\n")
    (tmp_path / ".git").mkdir()
    for key, value in {
        "GOFLAGS": "-run=Nope",
        "GOOS": "wasip1",
        "GOARCH": "wasm",
        "GOWORK": str(tmp_path / "go.work"),
        "WASM_FILE_PATH": "/nowhere/main.wasm",
    }.items():
        monkeypatch.setenv(key, value)
    toolchain.locate.cache_clear()

    assert [(suite.status, suite.passed) for suite in run(checkout).suites] == [(0, 2)]


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


def suite_without_a_module(request: Request) -> Suite:
    with source.taken_out(BASELINE, request) as tree:
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
        return unit._suite(toolchain.locate(), tree, nowhere, "./...", lambda _: None)


@pytest.mark.usefixtures("outside", "cache_folder")
def test_tests_that_skip_themselves_for_want_of_the_module_are_no_success(
    checkout: Checkout,
) -> None:
    suite = suite_without_a_module(Request(source=str(checkout.path), plugin=checkout.plugin))

    assert (suite.status, suite.passed) == (0, 1)
    assert suite.skipped_in_wasm == suite.skipped == ["tiny.example/plugin.TestModule"]
    assert refusal(run_of(suite)).sentence.endswith(
        ": 1 tests of the module were skipped, first tiny.example/plugin.TestModule; expected "
        "every test to run and pass; see the lines above"
    )


@pytest.mark.usefixtures("cache_folder")
def test_the_references_own_tests_fail_without_the_module() -> None:
    suite = suite_without_a_module(Request())

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
    assert lines[0] == f"fixed: module {found.module_sha256[:12]}"
    assert lines[1] == "fixed: go vet: 0 findings, 0 of them the baseline's"
    assert lines[3].startswith(f"go test ./...: {found.suites[1].passed} passed, 0 failed, 0 skip")
    assert list((cache_folder / "work").iterdir()) == []


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
        "error: go test -json -count=1 -timeout=60m ./... on the baseline variant: 1 tests failed, "
        "first tiny.example/plugin.TestOutside; expected every test to run and pass; see the lines "
        "above"
    )
    assert msgspec.json.decode(record.read_bytes(), type=UnitRun).suites[0].status == 1
