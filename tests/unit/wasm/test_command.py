"""Commands run to their end, and none of their processes outlives an interrupt."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from wasm.foundation import subprocesses

if TYPE_CHECKING:
    from pathlib import Path

# Starts a child that would live on, tells its number, and waits for it.
PARENT = (
    "import subprocess, sys; c = subprocess.Popen(['sleep', '300']); "
    "print(c.pid, flush=True); c.wait()"
)


def alive(pid: int) -> bool:
    return any(
        each.pid == pid and each.status() != psutil.STATUS_ZOMBIE for each in psutil.process_iter()
    )


def test_output_status_and_the_last_line_of_stderr_are_returned() -> None:
    done = subprocesses.run(["sh", "-c", "cat; echo one >&2; echo two >&2; exit 3"], stdin=b"in")

    assert (done.status, done.succeeded, done.stdout) == (3, False, b"in")
    assert done.stderr == "one\ntwo\n"
    assert done.last_line == "two"


def test_a_command_that_says_nothing_is_told_by_its_status() -> None:
    assert subprocesses.run(["sh", "-c", "exit 4"]).last_line == "exit status 4, no message"


def test_a_command_has_no_terminal_to_ask_at() -> None:
    done = subprocesses.run(["sh", "-c", "exec 3</dev/tty"])

    assert not done.succeeded
    assert subprocesses.run(["sh", "-c", "read line"]).status == 1


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    argv = ["sh", "-c", "sleep 300 & echo $! >child; wait"]
    with pytest.raises(TimeoutError) as caught:
        subprocesses.run(argv, cwd=tmp_path, limit_s=0.5)
    assert caught.value.strerror == "no end within 0.5 s"
    assert not alive(int((tmp_path / "child").read_text()))


def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises(FileNotFoundError):
        subprocesses.run(["no-such-program-anywhere"])


def test_an_interrupt_while_waiting_ends_all_that_was_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    children: list[int] = []

    class Interrupted(subprocess.Popen[bytes]):
        def communicate(self, *_: object, **__: object) -> tuple[bytes, bytes]:
            assert self.stdout
            children.extend([self.pid, int(self.stdout.readline())])
            raise KeyboardInterrupt

    monkeypatch.setattr("wasm.foundation.subprocesses.subprocess.Popen", Interrupted)

    with pytest.raises(KeyboardInterrupt):
        subprocesses.run([sys.executable, "-c", PARENT], cwd=tmp_path)

    assert len(children) == 2
    assert not any(alive(pid) for pid in children)


def test_leaving_a_stream_by_an_error_ends_all_that_was_started(tmp_path: Path) -> None:
    children: list[int] = []

    def interrupted() -> None:
        argv = [sys.executable, "-c", PARENT]
        with subprocesses.streaming(argv, cwd=tmp_path, env=os.environ) as (output, _):
            children.append(int(output.readline()))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert len(children) == 1
    assert not alive(children[0])


def test_a_stream_gives_both_outputs_as_they_come_and_then_the_status(tmp_path: Path) -> None:
    script = "echo out; echo err >&2; exit 5"

    with subprocesses.streaming(["sh", "-c", script], cwd=tmp_path, env=os.environ) as (
        output,
        ending,
    ):
        lines = list(output)

    assert lines == [b"out\n", b"err\n"]
    assert ending.status == 5
