"""What of a run may be published: no credential, and nothing of where its author keeps files.

A patch is the text that it makes: what a credential's shape spans may stand on lines that are
added and on lines around them, so lines are looked at together, without the signs before them.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from sessions.evidence.record import store
from sessions.evidence.record.records import Run
from sessions.matrix import credentials
from wasm.records import FixKind, Patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wasm.records import Module

_PROJECT = Path(__file__).resolve().parents[3]
# Plugin, gateway and tools write these, so what they hold is not known before.
_WRITTEN_BY_OTHERS = ("logs/*", "junit.xml", "config/*.json", "config/*.txt", "config/plugins/*")


def module(built: Module) -> tuple[Module, list[str]]:
    """Return a module's record without credentials in what its author has not published yet.

    The fix and what stands around a change are what they are: masked, they would be another patch.
    """
    source, masked = built.source, []
    changes, fix = source.uncommitted, source.fix
    if changes is not None and (clean := _masked(changes)) != changes:
        source, masked = replace(source, uncommitted=clean), [store.UNCOMMITTED]
    # What the work tree adds to the baseline may be uncommitted, too.
    if fix is not None and fix.origin.kind is FixKind.WORK_TREE:
        clean = _masked(fix.patch)
        if clean != fix.patch:
            source = replace(source, fix=replace(fix, patch=clean))
            masked.append(store.FIX)
    return replace(built, source=source), masked


def _masked(patch: Patch) -> Patch:
    before = patch.content.decode("latin-1")
    after = masked_patch(before)
    return patch if after == before else Patch.of(after.encode("latin-1"))


def record(run: Run) -> tuple[Run, list[str]]:
    """Return a run's record as it may be published; and its file, if it held a credential.

    The author's folders are named by ``~`` and ``.``; what the cases are, they stay.
    """
    # Its patches stay: they are bytes, and looked at apart.
    told = msgspec.to_builtins(run, builtin_types=(bytes,))
    before = {name: value if name == "cases" else texts(value) for name, value in told.items()}
    after = _each_text(before, credentials.masked)
    masked = [store.RUN] if after != before else []
    return msgspec.convert(after, Run, builtin_types=(bytes,)), masked


def texts(value: Any) -> Any:  # noqa: ANN401 - JSON's values
    """Return a value with the folders of this machine's user named as anyone has them."""
    return _each_text(value, _anyone_s)


def files(folder: Path) -> Iterator[str]:
    """Mask credentials in what others wrote; give the name of each file that had some."""
    for pattern in _WRITTEN_BY_OTHERS:
        # Only files: what is read to its end must have one.
        for path in sorted(each for each in folder.glob(pattern) if each.is_file()):
            before = path.read_bytes().decode("latin-1")
            after = credentials.masked(before)
            if after != before:
                path.write_bytes(after.encode("latin-1"))
                yield path.relative_to(folder).as_posix()


def in_patch(patch: str) -> Iterator[tuple[int, int]]:
    """Give where in a patch each part of a credential stands on a line that it adds."""
    for lines in _pieces(patch):
        text = "\n".join(line.text for line in lines)
        for start, end in credentials.spans(text):
            if not credentials.is_dummy(text[start:end]):
                yield from _added(lines, start, end)


def masked_patch(patch: str) -> str:
    """Return a patch with a mask for each such part: as many lines as before, so it applies."""
    return credentials.masked_at(patch, in_patch(patch))


class _Line(NamedTuple):
    """A line as a patch leaves it: without its sign, and where that text starts in the patch."""

    text: str
    start: int
    added: bool


def _pieces(patch: str) -> Iterator[list[_Line]]:
    """Give the text that each hunk makes: the lines it adds, and those that stand around them."""
    lines: list[_Line] = []
    at = 0
    for line in patch.split("\n"):
        if line.startswith(("+", " ")) or not line:
            lines.append(_Line(line[1:], at + 1, added=line.startswith("+")))
        elif not line.startswith(("-", "\\")):
            yield lines
            lines = []
        at += len(line) + 1
    yield lines


def _added(lines: list[_Line], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Give a span's parts on the lines that are added, as places in the patch."""
    at = 0
    for line in lines:
        part = line.text[max(0, start - at) : max(0, end - at)] if line.added else ""
        if credentials.mask(part.strip()) != part.strip():
            first = line.start + max(0, start - at) + len(part) - len(part.lstrip())
            yield first, first + len(part.strip())
        at += len(line.text) + 1


def _anyone_s(text: str) -> str:
    for folder, name in _folders():
        text = re.sub(rf"(?<![\w.]){re.escape(folder)}(?![\w.-])", name, text)
    return text


def _folders() -> Iterator[tuple[str, str]]:
    """Give the folders whose place is its user's own, and what they are called instead."""
    yield str(_PROJECT), "."
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home raises where there is none
    for each in dict.fromkeys((home, os.path.realpath(home))):
        if len(Path(each).parts) > 1:  # a service's home may be the root itself
            yield each.rstrip("/"), "~"


def _each_text(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - JSON's values
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _each_text(below, change) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_each_text(below, change) for below in value)
    return value
