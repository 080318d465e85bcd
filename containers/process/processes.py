"""Local processes of a testbed: started with their output in a file, ended whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import psutil

from containers.records import ProcessSeen
from wasm.foundation import parent_death
from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

_LAST_LINES = 12
_PAUSE_S = 0.005
_KILLED_WITHIN_S = 2.0


class Child:
    """A process of ours, its log, and how it ended.

    Attributes:
        patience_s: Seconds between SIGTERM and SIGKILL when it is stopped.
    """

    def __init__(
        self, name: str, process: subprocess.Popen[bytes], log: Path, patience_s: float
    ) -> None:
        self.name = name
        self.log = log
        self.patience_s = patience_s
        self._process = process

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def end(self) -> str | None:
        """How it ended, in words, or None while it runs."""
        status = self._process.returncode
        if status is None:
            # Looked at but not reaped: until it is stopped, its id, which is its group's too, can
            # be given to no other process.
            seen = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if seen is None:
                return None
            status = seen.si_status if seen.si_code == os.CLD_EXITED else -seen.si_status
        return (
            f"was ended by {_signal_name(-status)}"
            if status < 0
            else f"exited with status {status}"
        )

    def last_lines(self) -> str:
        """Return the end of its log."""
        with contextlib.suppress(OSError):
            text = self.log.read_bytes()[-20_000:].decode("utf-8", "replace")
            return "\n".join(text.splitlines()[-_LAST_LINES:])
        return ""

    def announcement(self, within_s: float) -> dict[str, Any]:
        """Return the JSON object that is the first line it writes to stdout.

        Raises:
            GatewayError: It ended, or some seconds passed, without such a line.
        """
        deadline = time.monotonic() + within_s
        stream = self._process.stdout
        line = b""
        while stream is not None and not line.endswith(b"\n"):
            left_s = deadline - time.monotonic()
            if not select.select([stream], [], [], max(left_s, 0))[0]:
                raise GatewayError(
                    f"the {self.name} did not say where it listens within {within_s:g} s; "
                    "expected a line of JSON from it; is the machine very busy? Try again",
                    detail=self.last_lines(),
                )
            part = os.read(stream.fileno(), 4096)
            if not part:
                break
            line += part
        with contextlib.suppress(ValueError):
            said = json.loads(line)
            if isinstance(said, dict):
                return said
        reason = self.last_lines().strip()
        raise GatewayError(
            f"the {self.name} did not start: "
            + (reason or f"its first line is {line.decode('utf-8', 'replace')!r}")
        )

    def listener(self, port: int) -> int | None:
        """Return the process of its group that listens on a TCP port; None where none does.

        A wrapper that waits for what it starts is not what listens.
        """
        for process in (psutil.Process(self.pid), *_living_in(self.pid)):
            with contextlib.suppress(psutil.Error):
                for each in process.net_connections("tcp"):
                    if each.status == psutil.CONN_LISTEN and each.laddr.port == port:
                        return int(process.pid)
        return None

    def stop(self) -> ProcessSeen:
        """End it, and all that it started; return what was seen.

        It gets SIGTERM, and SIGKILL when its patience is over; what is left of its group gets
        SIGKILL at once.
        """
        try:
            if self.end is None:
                self._process.terminate()
                _wait_until(lambda: self.end is not None, self.patience_s)
        finally:
            # Its id is not reaped yet, so this group is still ours.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
        return ProcessSeen(
            name=self.name,
            pid=self.pid,
            exit_status=self._process.returncode,
            ended=_wait_until(lambda: not _alive_in(self.pid), _KILLED_WITHIN_S),
        )


@contextlib.contextmanager
def running(  # noqa: PLR0913 - what a process needs, each by its own name
    name: str,
    argv: Sequence[str],
    log: Path,
    patience_s: float,
    seen: list[ProcessSeen],
    *,
    announces: bool = False,
) -> Iterator[Child]:
    """Run a process for as long as the context lasts.

    It leads a process group of its own, so that a Ctrl-C in the terminal reaches only us and
    clean-up has one owner; and the kernel ends it when we die without cleaning up.

    Args:
        name: How messages call it.
        argv: The program and its arguments.
        log: Takes its output.
        patience_s: Seconds between SIGTERM and SIGKILL; its ``patience_s`` may be changed later.
        seen: Takes what was seen of its end.
        announces: Whether its stdout is kept for :meth:`Child.announcement`.

    Raises:
        GatewayError: It could not be started at all.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    parent = os.getpid()
    with log.open("wb") as stream:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if announces else stream,
                stderr=stream,
                process_group=0,
                # SIGKILL: Envoy does not look at SIGTERM while it compiles a module.
                preexec_fn=lambda: parent_death.ends_with(parent, signal.SIGKILL),  # noqa: PLW1509 - there are no threads
            )
        except OSError as error:
            raise GatewayError(
                f"the {name} could not be started: {argv[0]}: {error.strerror}; expected a "
                "program for this machine; see `nox -s runtime-baseline -- --help`"
            ) from error
    child = Child(name, process, log, patience_s)
    try:
        yield child
    finally:
        seen.append(child.stop())


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def _wait_until(holds: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


def _alive_in(group: int) -> bool:
    """Whether a process of a group is left; one that only waits to be reaped is not."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return any(_living_in(group))


def _living_in(group: int) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                yield process
