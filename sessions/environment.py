"""A session's environment: the locked packages, Go where there is none, and the options read."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from sessions import options
from sessions.options import PROJECT
from wasm.foundation.errors import OutputError

if TYPE_CHECKING:
    import argparse

    import nox

PROOF = "requirements.txt"
DEVELOPMENT = "requirements-dev.txt"
_GO = "requirements-go.txt"


def prepare(session: nox.Session, name: str) -> argparse.Namespace:
    """Read the options, then install what a proof needs; the environment is reused."""
    try:
        arguments = options.parse(name, session.posargs, session.invoked_from)
    except (options.UsageError, OutputError) as error:
        session.error(str(error))
    if arguments.debug:
        session.env["GATEWAY_PROOF_DEBUG"] = "1"
    install(session, PROOF)
    return arguments


def install(session: nox.Session, lock: str) -> None:
    """Install exactly what a lock file says, by its hashes; and Go where the machine has none."""
    os.chdir(PROJECT)
    session.env["PYTHONDONTWRITEBYTECODE"] = None
    locks = [lock] if shutil.which("go") else [lock, _GO]
    wanted = [part for each in locks for part in ("--requirement", each)]
    session.install("--quiet", "--require-hashes", *wanted)
