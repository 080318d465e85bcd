"""What a ``go test`` command showed: what ran is counted, what did not run is no success."""

from __future__ import annotations

import json

import pytest

from wasm.gotest.test_events import Reading, Suite

GO_TEST = ["go", "test", "-json", "-count=1", "./..."]


def event(action: str, test: str = "", output: str = "", package: str = "p") -> bytes:
    row = {"Action": action, "Package": package, "Test": test, "Output": output}
    return json.dumps({key: value for key, value in row.items() if value}).encode() + b"\n"


def suite_of(
    *lines: bytes, status: int = 0, declared: dict[str, tuple[str, ...]] | None = None
) -> Suite:
    reading = Reading()
    for line in lines:
        reading.take(line)
    return reading.suite(GO_TEST, status, 1.23456, declared or {})


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
    assert suite.summary == "go test ./...: 3 passed, 0 failed, 0 skipped in 1.2 s"


def test_no_test_at_all_is_no_success() -> None:
    suite = suite_of(event("output", output="ok p 0.1s [no tests to run]\n"), event("pass"))

    assert suite.problem == "no test ran"


def test_a_failing_test_is_named_with_its_own_lines() -> None:
    suite = suite_of(
        event("output", "TestGood", "noise of a good test\n"),
        event("pass", "TestGood"),
        event("output", "TestBad", "=== RUN   TestBad\n"),
        event("output", "TestBad", "got 1, want 2\n"),
        event("fail", "TestBad"),
        event("output", output="FAIL\n"),
        event("fail"),
        status=1,
    )

    assert suite.failed == ["p.TestBad"]
    assert suite.problem == "1 tests failed, first p.TestBad"
    assert suite.output == "got 1, want 2"


def test_a_test_that_failed_by_a_subtest_adds_no_lines_of_its_own() -> None:
    suite = suite_of(
        event("output", "TestBad", "--- FAIL: TestBad (0.00s)\n"),
        event("output", "TestBad/a", "    got 1, want 2\n"),
        event("fail", "TestBad/a"),
        event("pass", "TestBad/b"),
        event("fail", "TestBad"),
        event("fail"),
        status=1,
    )

    assert suite.failed == ["p.TestBad/a", "p.TestBad"]
    assert suite.output == "    got 1, want 2"


def test_ten_failing_tests_are_shown_each_with_its_last_lines_and_the_others_counted() -> None:
    lines = []
    for number in range(12):
        name = f"Test{number:02}"
        lines += [event("output", name, f"{name} line {row}\n") for row in range(50)]
        lines.append(event("fail", name))

    shown = suite_of(*lines, status=1).output.splitlines()

    assert len(shown) == 10 * 40 + 1
    assert (shown[0], shown[39], shown[-2]) == (
        "Test00 line 10",
        "Test00 line 49",
        "Test09 line 49",
    )
    assert shown[-1] == "... and 2 more"


CRASHES = ["panic: boom", "fatal error: all goroutines are asleep - deadlock!", "SIGQUIT: quit"]


@pytest.mark.parametrize("crash", CRASHES)
def test_a_crash_is_shown_from_its_first_line_however_long_its_trace(crash: str) -> None:
    trace = ["noise\n", f"{crash}\n", *(f"frame {number}\n" for number in range(100))]

    suite = suite_of(
        *(event("output", "TestBad", line) for line in trace),
        event("fail", "TestBad"),
        event("fail"),
        status=1,
    )

    assert suite.output.splitlines()[:2] == [crash, "frame 0"]


@pytest.mark.parametrize("crash", CRASHES)
def test_a_package_whose_program_crashed_is_broken_though_a_test_of_it_failed(crash: str) -> None:
    reading = Reading()
    for line in (
        event("fail", "TestA"),
        event("output", output=f"{crash}\n"),
        event("fail"),
    ):
        reading.take(line)

    assert reading.broken() == {"p": f"ended in `{crash}`"}


def test_a_package_that_does_not_compile_is_told_with_the_compilers_lines() -> None:
    build = {"ImportPath": "p [p.test]", "Action": "build-output", "Output": "./a.go:3: wrong\n"}
    ended = {"ImportPath": "p [p.test]", "Action": "build-fail"}

    suite = suite_of(
        json.dumps(build).encode(),
        json.dumps(ended).encode(),
        event("pass", "TestGood", package="q"),
        event("fail"),
        status=1,
        declared={"p": ("TestBad",), "q": ("TestGood",)},
    )

    assert suite.problem == "it ended with status 1"
    assert suite.output == "./a.go:3: wrong"
    assert suite.missing == ["p"]


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


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        pytest.param([event("pass", "TestA")], ["p.TestB", "p.TestC"], id="left out by -run"),
        pytest.param([event("pass", "TestX", package="q")], ["p"], id="a package with no test run"),
        pytest.param(
            [event("skip", "TestA"), event("pass", "TestB"), event("pass", "TestC")],
            [],
            id="a skipped test did run",
        ),
        pytest.param(
            [event("pass", test) for test in ("TestA", "TestB", "TestC")]
            + [event("run", "TestC/sub")],
            ["p.TestC/sub"],
            id="begun, and no end seen",
        ),
    ],
)
def test_what_did_not_run_to_its_end_is_named(lines: list[bytes], missing: list[str]) -> None:
    suite = suite_of(*lines, declared={"p": ("TestA", "TestB", "TestC")})

    assert suite.missing == missing
    first = f"{len(missing)} did not run that should have, first {missing[0]}" if missing else ""
    assert suite.problem == first
    assert (f"{len(missing)} missing, " in suite.summary) is bool(missing)


def test_a_package_whose_tests_were_all_skipped_ran_none() -> None:
    suite = suite_of(
        event("pass", "TestA"),
        event("skip", "TestB", package="q"),
        declared={"p": ("TestA",), "q": ("TestB",)},
    )

    assert suite.missing == ["q"]
    assert suite.problem == "1 did not run that should have, first q"


@pytest.mark.parametrize(
    ("lines", "broken"),
    [
        pytest.param([event("fail", "TestA"), event("fail")], {}, id="a failing test"),
        pytest.param([event("pass", "TestA"), event("pass")], {}, id="all pass"),
        pytest.param(
            [event("pass", "TestA"), event("fail")],
            {"p": "failed, and no test of it did"},
            id="failed after its tests",
        ),
        pytest.param(
            [event("fail", "TestA"), event("run", "TestB"), event("fail")],
            {"p": "ended in the middle of TestB"},
            id="ended",
        ),
        pytest.param(
            [
                event("fail", "TestA"),
                event("output", "TestA", "panic: bo"),
                event("output", "TestA", "om\n"),
                event("fail"),
            ],
            {"p": "ended in `panic: boom`"},
            id="a panic, in two parts",
        ),
        pytest.param(
            [
                event("fail", "TestA"),
                event("output", "TestA", "    a_test.go:3: panic: not one\n"),
                event("fail"),
            ],
            {},
            id="a test that says panic",
        ),
        pytest.param(
            [
                event("fail", "TestA", package="q"),
                event("fail", package="q"),
                json.dumps({"Action": "fail", "Package": "p", "FailedBuild": "d"}).encode(),
            ],
            {"p": "did not compile"},
            id="what it imports does not compile",
        ),
    ],
)
def test_a_package_that_failed_by_more_than_failing_tests_is_told_from_others(
    lines: list[bytes], broken: dict[str, str]
) -> None:
    reading = Reading()
    for line in lines:
        reading.take(line)

    assert reading.broken() == broken


def test_a_time_out_is_shown_from_where_it_struck() -> None:
    suite = suite_of(
        event("run", "TestA"),
        event("run", "TestA/x"),
        event("output", "TestA/x", "panic: test timed out after 2s\n"),
        event("output", "TestA/x", "\trunning tests:\n"),
        event("fail"),
        status=1,
    )

    assert suite.problem == "it ended with status 1"
    assert suite.output == "panic: test timed out after 2s\n\trunning tests:"


def test_a_package_given_without_tests_has_to_have_run_some() -> None:
    declared: dict[str, tuple[str, ...]] = {"p": ("TestA",), "gone": ()}

    assert suite_of(event("pass", "TestA"), declared=declared).missing == ["gone"]


def test_the_log_has_everything_with_a_packages_and_a_tests_lines_together() -> None:
    reading = Reading()
    for line in (
        event("output", "TestA", "1\n"),
        event("output", "TestB", "2\n", package="q"),
        event("output", "TestA/sub", "3\n"),
        event("output", "TestA", "4\n"),
        b"no event\n",
        event("output", output="ok\n"),
    ):
        reading.take(line)

    assert "".join(reading.log()) == "1\n4\n3\nok\n2\nno event\n"


def test_a_command_that_go_ended_for_the_time_it_took_is_known() -> None:
    output = "=== RUN TestX\npanic: test timed out after 15m0s\n"
    suite = Suite(command=["go"], status=1, passed=0, failed=["a.TestX"], output=output)
    assert suite.timed_out
    said = "    x_test.go: panic: test timed out after noon"
    assert not Suite(command=["go"], status=1, passed=0, failed=["a.TestX"], output=said).timed_out
