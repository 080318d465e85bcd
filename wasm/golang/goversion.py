"""Which version of Go a source is built and tested with. Standard library only, as options are."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# What our own programs are built with, and a source that asks for no other.
GO_VERSION = "go1.26.8"
# Before it, `go build` has no -buildmode=c-shared for wasip1.
_OLDEST = (1, 24)
_NUMBER = re.compile(r"(?:go)?(\d+)\.(\d+)(?:\.(\d+)|(?:rc|beta)(\d+))?")
_GO_LINE = re.compile(r"^go[ \t]+(\S+)", re.MULTILINE)
_TOOLCHAIN_LINE = re.compile(r"^toolchain[ \t]+(\S+)", re.MULTILINE)
# How the recipe of Higress' builder image names its Go.
_BUILDER_LINE = re.compile(r"^ARG[ \t]+GO_VERSION=[\"']?([0-9.]+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class GoChoice:
    """The version of Go that a source is built with, such as ``go1.26.8``, and what decided it."""

    version: str
    because: str


def recipes(plugin: str) -> list[str]:
    """Return where the recipe of a plugin's builder image may lie, the nearest first."""
    return [(folder / "DockerfileBuilder").as_posix() for folder in PurePosixPath(plugin).parents]


def choose(
    go_mod: str, builder: Callable[[], tuple[str, str] | None], asked: str | None
) -> GoChoice:
    """Return the version that a source is built with.

    A version that cannot build for wasip1 is passed over, and so is one that is older than the go
    line, which Go refuses.

    Args:
        go_mod: The text of the plugin's go.mod.
        builder: Gives the recipe of the source's builder image, as its path and text.
        asked: What the user asked for, with --go.
    """
    if asked:
        return GoChoice(version=asked, because="as --go asks")
    line = _TOOLCHAIN_LINE.search(go_mod)
    if line and _key(line[1]) >= _OLDEST:
        chosen = GoChoice(version=line[1], because="the toolchain line of its go.mod")
    else:
        chosen = _of_builder(builder()) or GoChoice(
            version=GO_VERSION, because="ours, since the source asks for no other"
        )
    least = _GO_LINE.search(go_mod)
    if least and _key(least[1]) > _key(chosen.version):
        chosen = GoChoice(version=_release(least[1]), because="the go line of its go.mod")
    return chosen


def _of_builder(recipe: tuple[str, str] | None) -> GoChoice | None:
    built = _BUILDER_LINE.search(recipe[1]) if recipe else None
    if recipe is None or built is None or _key(built[1]) < _OLDEST:
        return None
    return GoChoice(version=_release(built[1]), because=f"of its builder, {recipe[0]}")


def named(text: str) -> str:
    """Return a version that a user names, as Go writes it; the type of the option --go.

    Raises:
        argparse.ArgumentTypeError: It is none that builds for wasip1.
    """
    if not _NUMBER.fullmatch(text) or _key(text) < _OLDEST:
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected a version of Go that builds for wasip1, 1.24 or newer, such "
            f"as {GO_VERSION}"
        )
    return _release(text)


def _key(text: str) -> tuple[int, ...]:
    """Return what orders versions: a release candidate is before its release."""
    found = _NUMBER.match(text)
    if found is None:
        return ()
    major, minor, patch, candidate = found.groups()
    return int(major), int(minor), -1 if candidate else int(patch or 0)


def _release(text: str) -> str:
    """Return the toolchain of a version; of a language version, its first release."""
    found = _NUMBER.match(text)
    is_language = found is not None and found[3] is None and found[4] is None
    return f"go{text.removeprefix('go')}{'.0' if is_language else ''}"
