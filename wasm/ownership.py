"""Whose something is: what we leave on a machine while we work names the process it serves.

A name can be checked later by anyone on the same machine: the owner lives as long as a process
with its id and its start time does. Where that cannot be said (another machine's owner, seen
through a shared Docker daemon), it counts as alive: what may be somebody's is never swept.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from wasm.records import sha256_of

# A start time is told a little differently after the clock was set; ids come around far later.
_CLOCK_S = 1.0


@dataclass(frozen=True)
class Owner:
    """A process: where it runs, its id, and when it started (seconds since the epoch)."""

    place: str
    pid: int
    started: float

    def __str__(self) -> str:
        return f"{self.place}_{self.pid}_{self.started:.2f}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """Read what ``str`` wrote; None for anything else."""
        try:
            place, pid, started = text.split("_")
            return cls(place, int(pid), float(started))
        except ValueError:
            return None

    @property
    def known_to_be_gone(self) -> bool:
        """Whether it ran here and has ended."""
        if self.place != _place():
            return False
        try:
            return bool(abs(psutil.Process(self.pid).create_time() - self.started) > _CLOCK_S)
        except psutil.NoSuchProcess:
            return True
        except psutil.AccessDenied:
            return False


@functools.cache
def here() -> Owner:
    """Return this process as an owner."""
    return Owner(_place(), os.getpid(), psutil.Process().create_time())


@functools.cache
def _place() -> str:
    """Name this machine since it booted, and the process namespace: ids mean nothing elsewhere."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    booted = boot.read_text().strip() if boot.exists() else str(psutil.boot_time())
    namespace = Path("/proc/self/ns/pid")
    pids = str(namespace.readlink()) if namespace.is_symlink() else ""
    return sha256_of(f"{os.uname().nodename} {booted} {pids}".encode())[:12]
