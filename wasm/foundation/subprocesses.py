"""Running Go and git: as a group of their own, so that an interrupt leaves none of them behind."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import psutil

from wasm.foundation import signals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import IO


_DEATH_S = 2.0


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    status: int
    stdout: bytes
    stderr: str

    @property
    def succeeded(self) -> bool:
        """Whether it exited with status 0."""
        return self.status == 0

    @property
    def last_line(self) -> str:
        """The last line it wrote to stderr: where git and Go say what was wrong."""
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        return lines[-1].strip() if lines else f"exit status {self.status}, no message"


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    limit_s: float | None = None,
) -> Finished:
    """Run a command to its end and return what it said.

    The command leads a session: no terminal that it (or an ssh that git starts) could ask at, and
    a process group. Whatever interrupts the wait (a signal, an error) ends the whole group before
    it goes on, compilers that Go has started included.

    Raises:
        TimeoutError: It had not ended after ``limit_s`` seconds, and was ended.
        OSError: There is no such program, or it cannot be started there.
    """
    with signals.ClosedInPeace() as stack:
        process = _started(
            stack, argv, cwd=cwd, env=env, stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            stdout, stderr = process.communicate(stdin, timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(errno.ETIMEDOUT, f"no end within {limit_s:g} s") from error
    return Finished(process.returncode, stdout, stderr.decode("utf-8", "replace"))


@dataclass
class Ending:
    """The exit status of a command that is read while it runs; set when it has ended."""

    status: int = -1


@contextlib.contextmanager
def streaming(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]
) -> Iterator[tuple[IO[bytes], Ending]]:
    """Run a command and give its output, both streams in one, as it comes.

    The group is ended with the context, as :func:`run` does.
    """
    ending = Ending()
    with signals.ClosedInPeace() as stack:
        process = _started(
            stack, argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        yield cast("IO[bytes]", process.stdout), ending
        ending.status = process.wait()


def _started(  # noqa: PLR0913 - as Popen has them
    stack: contextlib.ExitStack,
    argv: Sequence[str],
    *,
    cwd: Path | None,
    env: Mapping[str, str] | None,
    stdin: int,
    stderr: int,
) -> subprocess.Popen[bytes]:
    """Start a command that ends with a stack; no interrupt gets in before the stack knows of it."""
    with signals.held():
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
        stack.callback(_end_group, process)
    return process


def _end_group(leader: subprocess.Popen[bytes]) -> None:
    """End a command with all that it started, and wait until they are gone.

    Else one of them could still write into a folder that is being removed.
    """
    ended_by_itself = leader.returncode is not None
    for stream in (leader.stdin, leader.stdout, leader.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):  # what it did not want to read any more
                stream.close()
    if ended_by_itself:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGKILL)
    leader.wait()
    end = time.monotonic() + _DEATH_S
    while _lives_on(leader.pid) and time.monotonic() < end:
        time.sleep(0.01)


def _lives_on(group: int) -> bool:
    """Whether a process group has a member; the dead whom nobody has buried are none."""
    for each in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getpgid(each.pid) == group and each.status() != psutil.STATUS_ZOMBIE:
                return True
    return False
