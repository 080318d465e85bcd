"""A session of the matrix in a process of its own, and what is left of it afterwards."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from sessions.evidence.record import store
from wasm.fix_4396 import retry_identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessions.evidence.record.records import Run
    from sessions.matrix.records import Result

PROJECT = Path(__file__).resolve().parents[2]
PLUGIN = "wasm/go/reference"
# What sessions/proofs.py runs.
MATRIX = ("-m", "pytest", "tests/runtime", "--quiet", "--capture=no", "--tb=short", "-r", "fE")
ENDED_WITHIN_S = 60.0


def git(repository: Path, *argv: str) -> str:
    """Run git in a repository; return what it wrote."""
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.invalid")
    return subprocess.run(
        ["git", "-C", repository, *identity, *argv], capture_output=True, text=True, check=True
    ).stdout


def write_fix(repository: Path, argument: str) -> None:
    """Write the built-in fix into a repository, with another expression for what a retry passes."""
    rules = [
        replace(rule, rewrite={"PROVIDER": f"$PROVIDER, {argument}"})
        if rule.id == "retry-passes-its-api-name"
        else rule
        for rule in retry_identity.RULES
    ]
    assert rules != list(retry_identity.RULES)
    for name, content in retry_identity.fix(repository / PLUGIN, rules).files.items():
        (repository / PLUGIN / name).write_bytes(content)


def until(holds: Callable[[], bool], within_s: float = 60.0) -> None:
    """Wait for a condition, and fail when it does not come."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.005)


def ours(folder: Path) -> list[psutil.Process]:
    """Every process whose command line mentions a folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if any(str(folder) in part for part in process.cmdline()):
                found.append(process)
    return found


def gone(process: psutil.Process) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def refuses(address: str) -> bool:
    """Whether nobody listens at an address any more."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.settimeout(2)
        try:
            probe.connect((host, int(port)))
        except ConnectionRefusedError:
            return True
        return False


@dataclass
class Session:
    """One run of the matrix in a process of its own.

    Attributes:
        folder: Where its evidence goes.
    """

    folder: Path
    process: subprocess.Popen[str]
    stdout: str = ""
    stderr: str = ""

    @property
    def upstream_log(self) -> str:
        """What the upstream has logged so far; a line for each attempt."""
        with contextlib.suppress(OSError):
            return (self.folder / "logs" / "upstream.log").read_text()
        return ""

    def wait(self) -> int:
        """Wait for its end; return the exit status."""
        self.stdout, self.stderr = self.process.communicate(timeout=ENDED_WITHIN_S)
        return self.process.returncode

    def child(self, name: str) -> psutil.Process:
        """Wait for its ``envoy`` or its ``upstream`` to run, and return that."""
        found: list[psutil.Process] = []

        def started() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            with contextlib.suppress(psutil.NoSuchProcess):
                children = psutil.Process(self.process.pid).children()
                # Not the one that is only asked for its version.
                found[:] = [
                    each
                    for each in children
                    if each.name() == name and {"serve", "--config-path"} & {*each.cmdline()}
                ]
            return bool(found)

        until(started)
        return found[0]

    def gateways(self) -> list[psutil.Process]:
        """Its gateway's processes: one, or a wrapper and the Envoy it has started."""
        return [each for each in ours(self.folder) if each.pid != self.process.pid]

    def runs_cells(self) -> None:
        """Wait until it is in the middle of its cells."""
        until(lambda: self.process.poll() is not None or self.upstream_log.count(" model ") > 20)
        assert self.process.poll() is None, self.process.communicate()

    @property
    def last_words(self) -> str:
        """The sentence it ended with."""
        return self.stderr.strip().splitlines()[-1]

    def read(self) -> tuple[Run, tuple[Result, ...]]:
        """Read what it recorded."""
        return store.read_run(self.folder)
