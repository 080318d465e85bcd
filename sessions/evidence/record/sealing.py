"""Whether a folder is as it was sealed: exactly the files of SHA256SUMS, each with its digest."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sessions.evidence.record import store
from wasm.foundation.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_ROW = re.compile(r"([0-9a-f]{64})  (\S.*)")


def problems(folder: Path) -> Generator[str, None, str]:
    """Give what is not as SHA256SUMS says, each in a clause; return what was looked at."""
    sums = folder / store.SUMS
    if not sums.is_file():
        yield f"{store.SUMS} is missing"
        return ""
    content = sums.read_bytes()
    listed: dict[str, str] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        row = _ROW.fullmatch(line)
        if row is None:
            yield f"{store.SUMS} has the line {line[:80]!r}"
        elif row[2] in listed:
            yield f"{store.SUMS} names {row[2]} twice"
        else:
            listed[row[2]] = row[1]
    there = store.digests(folder)
    for name in sorted({*listed, *there}):
        if name not in there:
            yield f"{name} is missing"
        elif name not in listed:
            yield f"{name} is not in {store.SUMS}"
        elif there[name] != listed[name]:
            yield f"{name} was changed: its SHA-256 is {there[name]}, expected {listed[name]}"
    if content != store.as_sums(listed) and not {*listed} ^ {*there}:
        yield f"{store.SUMS} is not written as `nox -s report` writes it"
    return f"{len(listed)} files, each as {store.SUMS} says"


def refuse_unsealed(folder: Path, again: str = "run it again") -> None:
    """Refuse a run that was never sealed, or that was changed since.

    Args:
        folder: The run's.
        again: What makes another, in a clause.

    Raises:
        EvidenceError: It names the first file that is not as it was sealed.
    """
    problem = next(problems(folder), None)
    if problem is not None:
        raise EvidenceError(
            f"the run in {folder} is not as it was sealed: {problem}; expected the files that its "
            f"session wrote, unchanged; {again}"
        )
