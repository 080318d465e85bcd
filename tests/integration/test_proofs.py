"""Sessions as a user starts them: nox itself, in a folder of the user's own, on this project."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from sessions import proofs
from tests.integration.running import MATRIX, PROJECT, ours, until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.timeout(400)

# Two runs of the matrix, on a machine that does much else.
PATIENCE_S = 180

INTERRUPTED = "interrupted before the matrix was done; expected it to run to its end; run it again"
ONE = ("--engine=process", "--gateway=envoy", "--case=openai-chat", "--repeat=1")
# What the sandbox of a test has: no environment of nox's is made, ours is the session's.
NOX = (sys.executable, "-m", "nox", "-f", str(PROJECT / "noxfile.py"), "--no-venv", "--no-install")


class Ended:
    """How nox ended; ``last`` is the last line that was shown, without the time it took."""

    def __init__(self, status: int, stdout: str, stderr: str) -> None:
        self.status, self.stdout, self.stderr = status, stdout, stderr
        self.last = re.sub(r" \(took [^)]*\)\.$", ".", stderr.rstrip("\n").splitlines()[-1])


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The folder that the user stands in."""
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
def start(here: Path) -> Callable[..., subprocess.Popen[str]]:
    def started(*argv: str, stdout: int = subprocess.PIPE, **env: str) -> subprocess.Popen[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "GITHUB_"))}
        clean["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{clean['PATH']}"
        return subprocess.Popen(
            [*NOX, *argv],
            cwd=here,
            env={**clean, "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1", **env},
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
            # A shell without job control starts `pytest &` with SIGINT ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )

    return started


@pytest.fixture
def nox(start: Callable[..., subprocess.Popen[str]]) -> Callable[..., Ended]:
    def run(*argv: str, **env: str) -> Ended:
        with start(*argv, **env) as process:
            stdout, stderr = process.communicate(timeout=PATIENCE_S)
        return Ended(process.returncode, stdout, stderr)

    return run


def aborted(session: str, sentence: str) -> str:
    return f"nox > Session {session} aborted: {sentence}."


def said_once(ended: Ended, sentence: str) -> bool:
    """Whether a sentence is the end of all that is shown, and is nowhere else."""
    told = ended.stdout + ended.stderr
    noise = ("Traceback", "Exit:", "_pytest", "INTERNALERROR", "no tests ran")
    return told.count(sentence) == 1 and not any(word in told for word in noise)


# --- What ends before anything is run ------------------------------------------------------------


def test_a_bad_option_is_one_sentence(nox: Callable[..., Ended], here: Path) -> None:
    ended = nox("-s", "runtime-baseline", "--", "--repeat=0")
    assert ended.status == 1
    assert ended.stderr.splitlines() == [
        "nox > Running session runtime-baseline",
        ended.stderr.splitlines()[-1],
    ]
    assert ended.last == aborted(
        "runtime-baseline",
        "argument --repeat: found '0', expected a whole number from 1 to 10000; `nox -s "
        "runtime-baseline -- --help` lists the options",
    )
    assert list(here.iterdir()) == []


def test_help_is_shown_and_nothing_is_run(nox: Callable[..., Ended], here: Path) -> None:
    ended = nox("-s", "runtime-fixed", "--", "--help")
    assert (ended.status, ended.stderr) == (0, "nox > Running session runtime-fixed\n")
    assert ended.stdout.startswith("usage: nox -s runtime-fixed -- ")
    assert list(here.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_help_that_a_full_disk_does_not_take_is_no_success(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    with Path("/dev/full").open("wb") as full:
        process = start("-s", "runtime-fixed", "--", "--help", stdout=full.fileno())
        _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert Ended(1, "", stderr).last == aborted(
        "runtime-fixed",
        "the output cannot be written (No space left on device); expected it to be taken to its "
        "end; make room for it or send it elsewhere, and run it again",
    )
    assert "Traceback" not in stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--cases=nowhere"],
            (
                "no cases in {here}/nowhere (No such file or directory); expected *.toml files as "
                "in sessions/matrix/cases; name their folder with --cases"
            ),
        ),
        (
            ["--envoy=./nowhere"],
            (
                "no Envoy at {here}/nowhere; expected a program that can be run; name one with "
                "--envoy, or leave that out to take the one from PyPI"
            ),
        ),
        (
            ["--source=nowhere"],
            (
                "no folder at --source {here}/nowhere; expected a git checkout, a git URL, or "
                "`reference`"
            ),
        ),
        (
            ["--gateway=higress"],
            (
                "--gateway higress runs an image, which --engine process cannot; expected --engine "
                "docker with it, or --gateway envoy; change one of them"
            ),
        ),
    ],
    ids=["cases", "envoy", "source", "gateway"],
)
def test_what_is_not_there_is_one_sentence_once_as_seen_from_where_the_user_stands(
    nox: Callable[..., Ended], here: Path, options: list[str], sentence: str
) -> None:
    given = {option.partition("=")[0] for option in options}
    others = [option for option in ONE if option.partition("=")[0] not in given]
    ended = nox("-s", "runtime-baseline", "--", *others, *options, "--evidence=ev")
    sentence = sentence.format(here=here)
    assert ended.status == 1
    assert ended.last == aborted("runtime-baseline", sentence)
    assert said_once(ended, sentence), ended.stdout + ended.stderr
    assert list((here / "ev" / "runs").iterdir()) == []


def test_a_failure_is_annotated_where_github_runs_us(nox: Callable[..., Ended], here: Path) -> None:
    argv = ("-s", "runtime-baseline", "--", *ONE, "--cases=100%", "--evidence=ev")
    ended = nox(*argv, GITHUB_ACTIONS="true")
    assert ended.status == 1
    first, again, told, stopped, last = ended.stdout.splitlines()
    word = first.removeprefix("::stop-commands::")
    assert re.fullmatch(r"[0-9a-f]{32}", word)
    assert (again, stopped, last) == (f"::{word}::", first, f"::{word}::")
    assert told == (
        f"::error title=gateway-proof::no cases in {here}/100%25 (No such file or directory); "
        "expected *.toml files as in sessions/matrix/cases; name their folder with --cases"
    )


# --- Evidence that cannot be kept, or does not hold ----------------------------------------------


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (
            "latest",
            (
                "{here}/ev/latest cannot be replaced or written to (Not a directory); expected "
                "what we make there or nothing; move it away, or name another folder with "
                "--evidence"
            ),
        ),
        (
            "runs",
            (
                "no folder can be made in {here}/ev/runs (Not a directory); expected one that can "
                "be written to; name another with --evidence"
            ),
        ),
    ],
)
def test_a_file_in_the_way_of_evidence_is_named_before_anything_is_run(
    nox: Callable[..., Ended], here: Path, path: str, sentence: str
) -> None:
    (here / "ev").mkdir()
    (here / "ev" / path).write_text("mine")
    ended = nox("-s", "runtime-baseline", "--", *ONE, "--evidence=ev")
    assert ended.status == 1
    assert ended.last == aborted("runtime-baseline", sentence.format(here=here))
    assert "nox > python -m pytest" not in ended.stderr
    assert (here / "ev" / path).read_text() == "mine"


def test_a_broken_bundle_is_refused_as_seen_from_where_the_user_stands(
    nox: Callable[..., Ended], here: Path
) -> None:
    (here / "bundle").mkdir()
    (here / "bundle" / "comparison.json").write_text("{")
    ended = nox("-s", "verify", "--", "bundle")
    assert ended.status == 1
    assert ended.last.startswith("nox > Session verify aborted: ")
    assert f"nox > python -m sessions.evidence verify {here / 'bundle'}\n" in ended.stderr
    assert "Traceback" not in ended.stderr


WARNS = """
import sys, warnings, pytest

class Library:
    def pytest_collection_modifyitems(self):
        warnings.warn("use another name", DeprecationWarning)

raise SystemExit(pytest.main(sys.argv[1:], plugins=[Library()]))
"""


@pytest.mark.parametrize("ours", [True, False], ids=["our own tests", "a user's session"])
def test_a_library_s_warning_fails_our_own_tests_and_no_session_of_a_user_s(
    tmp_path: Path, *, ours: bool
) -> None:
    matrix = (MATRIX if ours else proofs._PYTEST)[2:]
    argv = [*matrix, "--variant=fixed", f"--run-dir={tmp_path}", "--collect-only"]
    done = subprocess.run(
        [sys.executable, "-c", WARNS, *argv],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert ("DeprecationWarning: use another name" in done.stdout) is ours
    assert ("INTERNALERROR" in done.stdout) is ours
    assert "tests/runtime/test_matrix.py: 18" in done.stdout


# --- Runs ----------------------------------------------------------------------------------------


def test_a_fixed_run_beside_a_baseline_that_failed_in_the_same_command_proves_nothing(
    nox: Callable[..., Ended], here: Path
) -> None:
    """The control alone: on the baseline nothing had to fail, so nothing was reproduced.

    The folder's name holds what pytest would take for a variable, and for a home.
    """
    ended = nox("-s", "runtime-baseline", "runtime-fixed", "--", *ONE, "--evidence=./~$HOME")
    evidence = here / "~$HOME"
    assert ended.status == 1
    aborts = [line for line in ended.stderr.splitlines() if " aborted: " in line]
    assert [re.sub(r" \(took [^)]*\)\.$", ".", line) for line in aborts] == [
        aborted(
            "runtime-baseline",
            "baseline: no cell had to fail, so nothing was reproduced; expected at least one case "
            "with `must_fail`; choose such a one with --case or --cases",
        ),
        aborted(
            "runtime-fixed",
            "inconclusive: no cell had to fail on the baseline, so nothing was reproduced; Go's "
            "tests: not run",
        ),
    ]
    comparison = json.loads((evidence / "latest/bundle/comparison.json").read_bytes())
    assert comparison["verdict"] == "inconclusive"
    for variant in ("baseline", "fixed"):
        run = evidence / "latest" / variant
        assert (run / "junit.xml").exists()
        assert json.loads((run / "run.json").read_bytes())["variant"] == variant
    assert [path.name for path in here.iterdir()] == ["~$HOME"]
    assert ours(here) == []


def test_an_older_baseline_is_compared_with_and_does_not_decide_a_fixed_run(
    nox: Callable[..., Ended], here: Path
) -> None:
    """It may well have been made with other options; here it reproduced nothing."""
    argv = ("--", *ONE, "--evidence=ev")
    assert nox("-s", "runtime-baseline", *argv).status == 1
    ended = nox("-s", "runtime-fixed", *argv)
    assert ended.status == 0, ended.stderr
    assert (
        "nox > inconclusive: no cell had to fail on the baseline, so nothing was reproduced; Go's "
        "tests: not run\n"
        "nox > Session runtime-fixed was successful" in ended.stderr
    )
    assert "-baseline-" in ended.stderr.partition(", which an earlier command made")[0]
    comparison = json.loads((here / "ev/latest/bundle/comparison.json").read_bytes())
    assert comparison["verdict"] == "inconclusive"


def test_a_fixed_run_that_failed_ends_in_its_own_sentence_whatever_the_comparison_says(
    nox: Callable[..., Ended],
) -> None:
    """What is called fixed here is the baseline once more, in which the defect is."""
    argv = ("--engine=process", "--gateway=envoy", "--case=kling-text-to-video", "--repeat=1")
    fixed = ("--fixed-ref=HEAD", "--evidence=ev")
    ended = nox("-s", "runtime-baseline", "runtime-fixed", "--", *argv, *fixed)
    assert ended.status == 1
    told = (
        "kling-text-to-video/retry/1: expected no check to fail, failed: retry_path, retry_body, "
        "client_status, client_body"
    )
    assert f"nox > refuted: fixed: {told}; Go's tests: not run\n" in ended.stderr
    aborts = [line for line in ended.stderr.splitlines() if " aborted: " in line]
    assert [re.sub(r" \(took [^)]*\)\.$", ".", line) for line in aborts] == [
        aborted("runtime-fixed", f"fixed: 1 of 2 cells are not as declared, first {told}")
    ]


def test_a_run_that_fails_early_leaves_latest_as_it_is_and_nothing_older_is_compared_or_verified(
    nox: Callable[..., Ended], here: Path
) -> None:
    """T35: nox goes on with the next session, which must not take the good pair for its own."""
    argv = ("--", *ONE, "--evidence=ev")
    assert nox("-s", "runtime-fixed", *argv).status == 0
    assert nox("-s", "runtime-baseline", *argv).status == 1  # here nothing had to fail
    assert nox("-s", "report", *argv).status == 1
    latest = {name: (here / "ev/latest" / name).resolve() for name in ("baseline", "fixed")}
    bundles = len([*(here / "ev/bundles").iterdir()])
    sessions = ("runtime-baseline", "runtime-fixed", "report", "verify")
    for wrong in ("--cases=nowhere", "--source=nowhere", "--envoy=./nowhere", "--repeat=0"):
        ended = nox("-s", *sessions, *argv, wrong)
        assert ended.status == 1
        said = [line for line in ended.stderr.splitlines() if " aborted: " in line]
        assert len(said) == len(sessions)
        if wrong != "--repeat=0":  # of which every session says so itself
            assert "nothing was compared: runtime-baseline of this command left no run" in said[2]
            assert "nothing was verified: this command was to make a bundle" in said[3]
        assert {name: (here / "ev/latest" / name).resolve() for name in latest} == latest
        assert len([*(here / "ev/bundles").iterdir()]) == bundles


def test_a_baseline_that_leaves_no_run_lets_no_fixed_run_of_the_same_command_succeed(
    nox: Callable[..., Ended], here: Path
) -> None:
    """The link to the latest fixed run is in the way of none but the second session."""
    argv = ("--", *ONE, "--evidence=ev")
    assert nox("-s", "runtime-baseline", *argv).status == 1
    link = here / "ev/latest/baseline"
    link.unlink()
    (link / "mine").mkdir(parents=True)
    ended = nox("-s", "runtime-baseline", "runtime-fixed", *argv)
    assert ended.status == 1
    said = [line for line in ended.stderr.splitlines() if " aborted: " in line]
    assert "cannot be replaced" in said[0]
    assert "Session runtime-fixed aborted: nothing was compared: runtime-baseline" in said[1]


def test_a_run_of_which_all_processes_were_killed_is_named_by_the_next_and_is_no_evidence(
    nox: Callable[..., Ended], start: Callable[..., subprocess.Popen[str]], here: Path
) -> None:
    """T33."""
    argv = ("--", *ONE, "--evidence=ev")
    assert nox("-s", "runtime-fixed", *argv).status == 0
    good = (here / "ev/latest/fixed").resolve()
    with start("-s", "runtime-fixed", *argv, "--keep") as process:
        until(lambda: len([*(here / "ev/runs").glob("*/config/admin-address.txt")]) > 1)
        every = [process.pid, *(child.pid for child in ours(here))]
        for pid in every:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
    until(lambda: not ours(here))
    (killed,) = [run for run in (here / "ev/runs").iterdir() if run != good]
    assert not (killed / "run.json").exists()
    assert (here / "ev/latest/fixed").resolve() == good
    for session in (("verify", "--", str(killed)), ("runtime-fixed", *argv)):
        ended = nox("-s", *session)
        assert (ended.status == 0) is (session[0] == "runtime-fixed")
    assert f"{killed} is half-written" in ended.stderr
    ended = nox("-s", "clean", "--", "--evidence=ev", GATEWAY_PROOF_CACHE=str(here / "cache"))
    assert f"removed: {killed}" in ended.stderr
    assert not killed.exists()
    assert good.exists()


RED = """package provider

import "testing"

func TestRed1(t *testing.T) { t.Fatal("red") }
func TestRed2(t *testing.T) { t.Fatal("red") }
func TestRed3(t *testing.T) { t.Fatal("red") }
"""


def test_go_tests_count_for_the_tree_that_they_saw_and_no_session_after_red_ones_is_a_success(
    nox: Callable[..., Ended], here: Path
) -> None:
    """T40, then T32: the module has the same bytes throughout."""

    def git(*words: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", here / "src", *author, *words], check=True)

    def told() -> tuple[str, str, str]:
        comparison = json.loads((here / "ev/latest/bundle/comparison.json").read_bytes())
        fixed = comparison["unit"]["fixed"]
        return comparison["verdict"], fixed["state"], comparison["modules"]["fixed"]["sha256"]

    subprocess.run(["git", "clone", "-q", PROJECT, here / "src"], check=True)
    where = ("--source=src", "--plugin=wasm/go/reference", "--evidence=ev")
    argv = ("--", "--engine=process", "--case=kling-text-to-video", "--repeat=1", *where)
    runtime = ("runtime-baseline", "runtime-fixed")
    ended = nox("-s", "unit", *runtime, *argv)
    assert ended.status == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].endswith("; Go's tests: passed")
    *proven, module = told()
    assert proven == ["proven", "passed"]

    (here / "src/wasm/go/reference/provider/zz_test.go").write_text(RED)
    git("add", ".")
    git("commit", "-qm", "breaks a test")
    ended = nox("-s", *runtime, *argv)
    assert ended.stdout.splitlines()[-1].endswith("; Go's tests: not run on this tree")
    assert told() == ("proven", "not run on this tree", module)

    ended = nox("-s", "unit", *runtime, *argv)
    # They are red on the baseline, too: it is not the fix that breaks them.
    assert (ended.status, told()) == (1, ("inconclusive", "failed", module))
    said = [line for line in ended.stderr.splitlines() if " aborted: " in line]
    assert "`unit` of the same command failed: go test ./provider on the fixed" in said[1]
    assert "Session runtime-fixed aborted: inconclusive: Go's tests: 3 failed" in said[2]
    assert nox("-s", "verify", "--", "--evidence=ev").status == 0


def test_the_order_of_the_two_runs_changes_nothing_and_no_older_one_is_compared_with(
    nox: Callable[..., Ended], here: Path
) -> None:
    assert nox("-s", "runtime-baseline", "--", *ONE, "--evidence=ev").status == 1
    older = (here / "ev/latest/baseline").resolve()
    argv = ("--engine=process", "--gateway=envoy", "--case=kling-text-to-video", "--repeat=1")
    ended = nox("-s", "runtime-fixed", "runtime-baseline", "--", *argv, "--evidence=ev")

    assert ended.status == 0, ended.stderr
    told = [line for line in ended.stderr.splitlines() if "sessions.evidence report" in line]
    assert len(told) == 1
    assert str(older) not in told[0]
    comparison = json.loads((here / "ev/latest/bundle/comparison.json").read_bytes())
    assert comparison["verdict"] == "proven"
    for variant in ("baseline", "fixed"):
        run = json.loads((here / "ev/latest" / variant / "run.json").read_bytes())
        assert comparison["runs"][variant]["id"] == run["id"]
    assert "  fix     the built-in fix higress-4396" in ended.stdout.splitlines()[-10:]
    assert "fixed: fix: the built-in fix higress-4396" in ended.stderr


def test_a_patch_that_does_not_fit_is_refused_before_the_baseline_is_built(
    nox: Callable[..., Ended], here: Path
) -> None:
    (here / "fix.patch").write_text("what is this?\n")
    ended = nox("-s", "runtime-baseline", "--", *ONE, "--fixed-patch=fix.patch", "--evidence=ev")
    assert ended.status == 1
    assert "the patch fix.patch does not apply" in ended.last
    assert list((here / "ev" / "runs").iterdir()) == []


def test_ctrl_c_while_a_matrix_with_keep_is_being_started_is_an_interrupt(
    start: Callable[..., subprocess.Popen[str]], here: Path
) -> None:
    with start("-s", "runtime-fixed", "--", *ONE, "--keep", "--evidence=ev") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("nox > python -m pytest "):
                break
        os.killpg(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stderr) == (130, "nox > Session runtime-fixed interrupted.\n")
    assert list((here / "ev" / "runs").iterdir()) == []
    assert ours(here) == []


def test_the_ctrl_c_that_ends_keep_is_its_normal_end(
    start: Callable[..., subprocess.Popen[str]], here: Path
) -> None:
    with start("-s", "runtime-fixed", "--", *ONE, "--keep", "--evidence=ev") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("  openai-chat: http"):
                break
        os.killpg(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, stderr
    assert "nox > Session runtime-fixed was successful" in stderr
    run = json.loads((here / "ev/latest/fixed/run.json").read_bytes())
    assert (run["failure"], run["counts"]["pass"]) == ("", 2)
    assert ours(here) == []


def test_ctrl_c_before_keep_is_an_interrupt(
    start: Callable[..., subprocess.Popen[str]], here: Path
) -> None:
    with start("-s", "runtime-fixed", "--", *ONE, "--keep", "--evidence=ev") as process:

        def envoy_runs() -> bool:
            with contextlib.suppress(IndexError, psutil.NoSuchProcess):
                return any("--config-path" in each.cmdline() for each in ours(here))
            return False

        until(envoy_runs)
        os.killpg(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert stderr.splitlines()[-2:] == [
        f"error: {INTERRUPTED}",
        "nox > Session runtime-fixed interrupted.",
    ]
    assert ours(here) == []
