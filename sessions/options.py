"""The options after ``--``: one parser, the same for every session. Standard library only."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from containers.options import TESTBED_OPTIONS
from sessions.matrix.options import MATRIX_OPTIONS
from wasm.options import SOURCE_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PROJECT = Path(__file__).resolve().parent.parent


class UsageError(Exception):
    """The options cannot be understood; in a sentence."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; `nox -s {self.prog.split()[2]} -- --help` lists the options")


def parse(session: str, posargs: Sequence[str]) -> argparse.Namespace:
    """Return what the options after ``--`` say.

    Raises:
        UsageError: One is unknown, or its value is not one it takes.
    """
    parser = _Parser(prog=f"nox -s {session} --", allow_abbrev=False)
    for title, options in (
        ("where the two variants come from", SOURCE_OPTIONS),
        ("how they are run", TESTBED_OPTIONS),
        ("which cells are run", MATRIX_OPTIONS),
    ):
        group = parser.add_argument_group(title)
        for flag, settings in options.items():
            group.add_argument(flag, **settings)
    group = parser.add_argument_group("everything else")
    group.add_argument(
        "--evidence",
        metavar="DIR",
        type=Path,
        default=PROJECT / "evidence",
        help="where runs and bundles are written (evidence)",
    )
    group.add_argument(
        "--keep",
        action="store_true",
        help="keep the adapted module and the files the gateway loaded",
    )
    group.add_argument(
        "--debug", action="store_true", help="show tracebacks, and the gateway's debug log"
    )
    arguments = parser.parse_args(posargs)
    arguments.evidence = arguments.evidence.expanduser().resolve()
    return arguments


def forwarded(arguments: argparse.Namespace, options: Iterable[str]) -> list[str]:
    """Return some options as a step's own arguments; those left at their defaults are left out."""
    argv: list[str] = []
    for flag in options:
        value = getattr(arguments, flag.lstrip("-").replace("-", "_"))
        if value is not None:
            argv += [f"{flag}={value}"]
    return argv
