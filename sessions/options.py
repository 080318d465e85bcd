"""The options after ``--``: one parser, the same for every session. Standard library only."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from containers.options import TESTBED_OPTIONS
from sessions.evidence.options import EVIDENCE_OPTIONS, PATH
from sessions.matrix.options import MATRIX_OPTIONS
from wasm.foundation import paths, terminal
from wasm.options import SOURCE_OPTIONS, UNIT_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PROJECT = Path(__file__).resolve().parent.parent


class UsageError(Exception):
    """The options cannot be understood; in a sentence."""


class _Parser(argparse.ArgumentParser):
    def print_help(self, file: Any = None) -> None:  # noqa: ANN401 - as argparse has it
        terminal.show(self.format_help(), file or sys.stdout)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; `{self.prog} --help` lists the options")


UNIT_SESSION_OPTIONS: dict[str, dict[str, Any]] = {
    "--variant": {
        "default": "fixed",
        "choices": ["baseline", "fixed", "both"],
        "help": "which variant's tests are run: baseline, fixed or both (fixed)",
    },
    **UNIT_OPTIONS,
}
EVERYTHING_ELSE: dict[str, dict[str, Any]] = {
    "--evidence": {
        "default": PROJECT / "evidence",
        "metavar": "DIR",
        "type": paths.named,
        "help": "where runs and bundles are written (evidence)",
    },
    "--debug": {
        "action": "store_true",
        "help": "show tracebacks, and the gateway's debug log",
    },
}
_GROUPS = {
    "where the two variants come from": SOURCE_OPTIONS,
    "how they are run": TESTBED_OPTIONS,
    "which cells are run": MATRIX_OPTIONS,
    "how Go's own tests are run, by the session unit": UNIT_SESSION_OPTIONS,
    "how evidence is signed and checked": EVIDENCE_OPTIONS,
    "everything else": EVERYTHING_ELSE,
}
_FORWARDED = {**SOURCE_OPTIONS, **TESTBED_OPTIONS, **MATRIX_OPTIONS, **UNIT_OPTIONS}


def parse(session: str, posargs: Sequence[str], seen_from: str | Path = ".") -> argparse.Namespace:
    """Return what the options after ``--`` say.

    Args:
        session: Its name, for the help.
        posargs: What the user gave.
        seen_from: The folder that he gave them in: all relative paths are made absolute there.

    Raises:
        UsageError: One is unknown, or its value is not one it takes.
    """
    parser = _Parser(prog=f"nox -s {session} --", allow_abbrev=False)
    if session == "verify":
        parser.add_argument("path", **PATH)
    for title, options in _GROUPS.items():
        group = parser.add_argument_group(title)
        for flag, settings in options.items():
            group.add_argument(flag, **settings)
    with contextlib.chdir(seen_from):
        arguments, unknown = parser.parse_known_args(posargs)
    if unknown:
        # Quoted, so that `"a b" ""` is seen to be two arguments.
        parser.error(f"unrecognized arguments: {shlex.join(unknown)}")
    given = Counter(word.partition("=")[0] for word in posargs)
    for flag, settings in (pair for options in _GROUPS.values() for pair in options.items()):
        # The last alone would hold: of the cases of two --case some were not run, say.
        if given[flag] > 1 and "action" not in settings:
            parser.error(f"argument {flag}: found {given[flag]} of them, expected one")
    for flag in _FORWARDED:
        # An unset variable in the user's shell; it must not silently mean the default.
        if getattr(arguments, _name(flag)) == "":
            parser.error(f"argument {flag}: found '', expected a value, or not to be given at all")
    return arguments


def forwarded(arguments: argparse.Namespace, options: Iterable[str]) -> list[str]:
    """Return some options as a step's own arguments; those left at their defaults are left out."""
    argv: list[str] = []
    for flag in options:
        value = getattr(arguments, _name(flag))
        settings = _FORWARDED[flag]
        if settings.get("action") == "store_true":
            argv += [flag] if value else []
        elif value != settings["default"]:
            argv += [f"{flag}={value}"]
    return argv


def _name(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")
