"""Whose something is: what we leave on a machine while we work names the process it serves.

A name can be checked later by anyone on the same machine: the owner lives as long as a process
with its id and its start time does, and no longer than the machine stays up. Where that cannot be
said (another machine's owner, seen through a shared Docker daemon or a shared disk), it counts as
alive: what may be somebody's is never swept.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from wasm.records import sha256_of

# Where the kernel tells a start in ticks since it booted, it is exact; psutil's is seconds since
# the epoch, told a little differently after the clock was set.
_EXACT_S, _CLOCK_S = 0.02, 1.0
_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"
_MACHINE_ID = Path("/etc/machine-id")
_ENDED = ("Z", "X")  # ended, and only not buried by its parent yet


@dataclass(frozen=True)
class Place:
    """Where process ids mean something.

    Attributes:
        machine: Digest of the machine's name and id.
        boot: Digest of the kernel's name for this boot; empty where it has none.
        ids: Digest of the namespace that process ids are counted in; likewise.
    """

    machine: str
    boot: str
    ids: str

    def __str__(self) -> str:
        return f"{self.machine}.{self.boot}.{self.ids}"


@dataclass(frozen=True)
class Owner:
    """A process: where it runs, its id, and when it started.

    Attributes:
        started: Seconds since the machine booted; since the epoch where there is no ``/proc``.
    """

    place: Place
    pid: int
    started: float

    def __str__(self) -> str:
        return f"{self.place}_{self.pid}_{self.started:.2f}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """Read what ``str`` wrote; None for anything else."""
        try:
            place, pid, started = text.split("_")
            machine, boot, ids = place.split(".")
            return cls(Place(machine, boot, ids), int(pid), float(started))
        except ValueError:
            return None

    @property
    def known_to_be_gone(self) -> bool:
        """Whether it ran here and has ended."""
        ours = here().place
        if self.place.machine != ours.machine:
            return False
        if self.place.boot != ours.boot:
            return True  # the machine was started anew since then
        return self.place.ids == ours.ids and _has_ended(self.pid, self.started)


@functools.cache
def here() -> Owner:
    """Return this process as an owner."""
    pid = os.getpid()
    stat = _stat(pid)
    return Owner(_place(), pid, psutil.Process().create_time() if stat is None else stat[1])


def _has_ended(pid: int, started: float) -> bool:
    """Whether no process has this id, or another one has; anything unclear is a no."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass  # somebody else's, so there is one
    stat = _stat(pid)
    if stat is not None:
        state, since = stat
        return state in _ENDED or abs(since - started) > _EXACT_S
    if _BOOT_ID.exists():
        return False  # hidden from us (hidepid), or gone this very moment
    try:
        process = psutil.Process(pid)
        ended = process.status() == psutil.STATUS_ZOMBIE
        return bool(ended or abs(process.create_time() - started) > _CLOCK_S)
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def _stat(pid: int) -> tuple[str, float] | None:
    """Return a process's state, and its start in seconds since boot; None where nothing says so.

    Not psutil's start time: on Linux it is counted from the boot's date, which moves whenever the
    clock is set, and a live owner would be taken for a gone one.
    """
    try:
        # After the name, which may hold anything: fields 3 and 22 of proc_pid_stat(5).
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


@functools.cache
def _place() -> Place:
    machine = [os.uname().nodename, _said_by(_MACHINE_ID)]
    namespace = _PROC / "self/ns/pid"
    return Place(
        machine=_digest(" ".join(machine)),
        boot=_digest(_said_by(_BOOT_ID)),
        ids=_digest(str(namespace.readlink()) if namespace.is_symlink() else ""),
    )


def _said_by(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _digest(text: str) -> str:
    return sha256_of(text.encode())[:8] if text else ""
