"""Local processes of a testbed: started with their output in a file, ended whatever happens."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from typing import TYPE_CHECKING

from containers.records import ProcessSeen
from wasm.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_LAST_LINES = 12
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Child:
    """A process of ours, its log, and how it ended."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def end(self) -> str | None:
        """How it ended, in words, or None while it runs."""
        status = self._process.poll()
        if status is None:
            return None
        if status < 0:
            return f"was ended by {signal.Signals(-status).name}"
        return f"exited with status {status}"

    def last_lines(self) -> str:
        """Return the end of its log."""
        with contextlib.suppress(OSError):
            text = self.log.read_bytes()[-20_000:].decode("utf-8", "replace")
            return "\n".join(text.splitlines()[-_LAST_LINES:])
        return ""

    def first_line(self) -> bytes:
        """Return the first line it writes to stdout; empty when it ends without one."""
        if self._process.stdout is None:
            return b""
        return self._process.stdout.readline()

    def stop(self, patience_s: float) -> ProcessSeen:
        """End it: SIGTERM, then SIGKILL after some seconds; return what was seen."""
        group = self._process.pid
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(patience_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        return ProcessSeen(
            name=self.name,
            pid=self._process.pid,
            exit_status=self._process.returncode,
            ended=not _exists(self._process.pid),
        )


@contextlib.contextmanager
def running(
    name: str, argv: Sequence[str], log: Path, patience_s: float, seen: list[ProcessSeen]
) -> Iterator[Child]:
    """Run a process for as long as the context lasts.

    It leads a process group of its own, so that a Ctrl-C in the terminal reaches only us and
    clean-up has one owner; and the kernel ends it when we die without cleaning up.

    Args:
        name: How messages call it.
        argv: The program and its arguments.
        log: Takes its stderr.
        patience_s: Seconds between SIGTERM and SIGKILL.
        seen: Takes what was seen of its end.

    Raises:
        GatewayError: It could not be started at all.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stream:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                process_group=0,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - no threads are running here yet
            )
        except OSError as error:
            raise GatewayError(
                f"the {name} could not be started: {argv[0]}: {error.strerror}; expected a "
                "program for this machine; see `nox -s runtime-baseline -- --help`"
            ) from error
    child = Child(name, process, log)
    try:
        yield child
    finally:
        seen.append(child.stop(patience_s))


def _end_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
