"""How a step ends: its status, and its last words."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from wasm.foundation import terminal
from wasm.foundation.errors import BuildError, GatewayError, OutputError, ProofError

PROJECT = Path(__file__).parents[3]


def ended(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"from wasm.foundation import errors, terminal\n{code}"],
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
            [
                sys.executable,
                "-c",
                f"from wasm.foundation import terminal\nterminal.finish(lambda: {code})",
            ],
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


FULL = (
    "error: the output cannot be written (No space left on device); expected it to be taken to its "
    "end; make room for it or send it elsewhere, and run it again\n"
)
full_disk = pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")


@full_disk
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "code",
    ["print('x')", "print('x', flush=True)", "print('x' * 100_000)", "terminal.annotate('x')"],
)
def test_output_that_a_full_disk_does_not_take_ends_a_step_in_a_sentence(
    code: str, unbuffered: str
) -> None:
    """Even where the step takes what goes wrong for something of its own disk's."""
    step = (
        "import pathlib\n"
        "from wasm.foundation import cache, terminal\n"
        "def step():\n"
        "    with cache.disk_errors(pathlib.Path('/cache')):\n"
        f"        {code}\n"
        "terminal.finish(step)"
    )
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", step],
            cwd=PROJECT,
            env={**os.environ, "GITHUB_ACTIONS": "true", "PYTHONUNBUFFERED": unbuffered},
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
        )
    assert (done.returncode, done.stderr) == (2, FULL)


@full_disk
def test_errors_that_a_full_disk_does_not_take_are_seen_from_the_status() -> None:
    for step, status in (("errors.BuildError('wrong')", 2), ("KeyboardInterrupt", 130)):
        code = f"def step():\n    print('x')\n    raise {step}\nterminal.finish(step)"
        # -E: no PYTHONUNBUFFERED, with which the print itself would fail.
        argv = [sys.executable, "-E", "-c", f"from wasm.foundation import errors, terminal\n{code}"]
        for stdout in ("/dev/null", "/dev/full"):
            with Path("/dev/full").open("wb") as full, Path(stdout).open("wb") as other:
                done = subprocess.run(
                    argv, cwd=PROJECT, check=False, stdout=other, stderr=full, timeout=30
                )
            assert done.returncode == status
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                argv, cwd=PROJECT, check=False, stdout=full, stderr=subprocess.PIPE, timeout=30
            )
        assert done.returncode == status
        assert len(done.stderr.splitlines()) == 1


@full_disk
def test_what_cannot_be_shown_is_told_once_and_then_goes_nowhere() -> None:
    with Path("/dev/full").open("wb") as full:
        with pytest.raises(OutputError) as refused:
            terminal.show(b"a", full)
        terminal.show(b"b", full)
    assert f"error: {refused.value}\n" == FULL


@pytest.mark.parametrize("number", [errno.EPIPE, errno.EIO])
def test_what_nobody_reads_any_more_goes_nowhere(tmp_path: Path, number: int) -> None:
    """A pipe without a reader, and a terminal that was closed."""

    class Gone(io.FileIO):
        def write(self, _data: object, /) -> int:
            raise OSError(number, os.strerror(number))

    with Gone(tmp_path / "file", "wb") as stream:
        terminal.show(b"a", stream)
        os.write(stream.fileno(), b"b")
    assert (tmp_path / "file").read_bytes() == b""


def test_another_pipe_s_end_is_not_taken_for_stdout_s() -> None:
    done = ended(
        "def step():\n"
        "    print('shown')\n"
        "    raise BrokenPipeError(32, 'of a program that we had started')\n"
        "terminal.finish(step)"
    )

    assert (done.returncode, done.stdout) == (1, "shown\n")
    assert "nobody reads" not in done.stderr
    assert done.stderr.endswith("\nBrokenPipeError: [Errno 32] of a program that we had started\n")


def test_a_step_whose_stdout_was_closed_from_the_start_does_its_work(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys\n"
        "from wasm.foundation import terminal\n"
        "def step():\n"
        "    print('x')\n"
        "    sys.stdout.flush()\n"
        f"    pathlib.Path({str(tmp_path)!r}, 'done').touch()\n"
        "terminal.finish(step)"
    )
    argv = ["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, code]
    done = subprocess.run(argv, cwd=PROJECT, check=False, capture_output=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "done").exists()


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


def test_a_command_for_github_stands_between_the_word_that_lets_it_be_taken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "_WORD", "w0rd")
    terminal.give_commands(["::error::a", "::error::b"])
    terminal.give_commands([])
    assert capsys.readouterr().out == "::w0rd::\n::error::a\n::error::b\n::stop-commands::w0rd\n"


def test_what_a_step_starts_does_not_know_the_word() -> None:
    code = "import os; from wasm.foundation import terminal as t\n"
    code += "print(t._WORD, t.COMMANDS in os.environ)"
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        env={**os.environ, terminal.COMMANDS: "w0rd"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "w0rd False\n"


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
from wasm.foundation import terminal
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
