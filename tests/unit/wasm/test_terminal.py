"""How a step ends: its status, and its last words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from wasm import terminal
from wasm.errors import BuildError, GatewayError, ProofError

PROJECT = Path(__file__).parents[3]


def ended(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"from wasm import errors, terminal\n{code}"],
        cwd=PROJECT,
        env=env,
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_a_step_that_succeeds_ends_with_0_and_says_nothing() -> None:
    done = ended("terminal.finish(lambda: None)")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_error_is_its_detail_and_then_its_sentence_on_one_line() -> None:
    done = ended(
        "def step(): raise errors.BuildError('wrong;\\n  expected;   do', detail='a\\nb\\n')\n"
        "terminal.finish(step)"
    )

    assert (done.returncode, done.stderr) == (2, "a\nb\nerror: wrong; expected; do\n")


def test_the_traceback_is_shown_when_it_is_asked_for_and_the_sentence_still_comes_last() -> None:
    done = ended(
        "def step(): raise errors.BuildError('wrong')\nterminal.finish(step)",
        GATEWAY_PROOF_DEBUG="1",
    )

    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith("\nerror: wrong\n")


def test_what_the_system_says_of_a_file_is_a_sentence() -> None:
    done = ended("terminal.finish(lambda: open('/nowhere'))")

    assert done.returncode == 2
    assert done.stderr == (
        "error: /nowhere cannot be used (No such file or directory); expected a path that is there "
        "and can be read and written; mend it, or see with --debug where it is needed\n"
    )


def test_output_that_nobody_reads_any_more_ends_a_step_in_a_sentence() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    for code in ("print('x')", "print('x', flush=True)"):
        done = subprocess.run(
            [sys.executable, "-c", f"from wasm import terminal\nterminal.finish(lambda: {code})"],
            cwd=PROJECT,
            check=False,
            stdout=writes,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
        )
        assert (done.returncode, done.stderr) == (
            141,
            "error: nobody reads the output any more; expected that to its end; run it again\n",
        )
    os.close(writes)


@pytest.mark.parametrize(
    ("actions", "shown"),
    [
        ("true", "::error title=gateway-proof::50%25 of%0D%0Athe cells%253A failed\n"),
        ("", ""),
        ("false", ""),
    ],
)
def test_a_sentence_is_annotated_where_github_runs_us_escaped_as_it_reads_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], actions: str, shown: str
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", actions)
    terminal.annotate("50% of\r\nthe cells%3A failed")
    assert capsys.readouterr().out == shown


def test_each_kind_of_error_ends_with_status_2() -> None:
    kinds: list[type[ProofError]] = [ProofError, *ProofError.__subclasses__()]

    assert {kind.exit_status for kind in kinds} == {2}
    assert terminal.last_words(BuildError("wrong")) == "error: wrong"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_cleans_up_ends_with_130_and_a_second_one_changes_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    code = f"""
import pathlib, sys, time
sys.path.insert(0, {str(PROJECT)!r})
from wasm import terminal
def step():
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        print("cleaning", flush=True)
        sys.stdin.readline()
        pathlib.Path("cleaned").touch()
terminal.finish(step)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == "cleaning\n"
        process.send_signal(number)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate("\n", timeout=30)

    assert process.returncode == 130
    assert said == "interrupted; everything that was started has been ended\n"
    assert (tmp_path / "cleaned").exists()


def test_what_is_no_error_of_the_users_keeps_its_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def step() -> NoReturn:
        raise ZeroDivisionError

    try:
        with pytest.raises(ZeroDivisionError):
            terminal.finish(step)
    finally:
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)
    assert capsys.readouterr().err == ""


def test_what_was_noted_on_an_error_or_on_its_cause_is_shown_before_its_sentence() -> None:
    cause = OSError("refused")
    cause.add_note("closing failed, too: a container")
    error = GatewayError("It refused.", "a log line")
    error.add_note("closing failed, too: a network")
    error.__cause__ = cause
    assert terminal.last_words(error).splitlines() == [
        "a log line",
        "closing failed, too: a network",
        "closing failed, too: a container",
        "error: It refused.",
    ]
