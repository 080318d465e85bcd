"""What a run's folder holds beside its record and its cells, as far as a report shows it."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING

import msgspec

from containers.records import Cleanup
from sessions.evidence.record import store

if TYPE_CHECKING:
    from pathlib import Path

_EXCERPT_LINES = 30
_EXCERPT_BYTES = 12_000
_LOGS = ("gateway.log", "access.log", "upstream.log", "stats.txt", "clusters.txt")


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a log.

    Attributes:
        name: The file's path in the run's folder.
        size_bytes: Of the whole file.
        text: Its last lines; bytes that are not UTF-8 as lone surrogates.
    """

    name: str
    size_bytes: int
    text: str


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """Beside the records: the clean-up proof, the ends of the logs, the digest of SHA256SUMS."""

    cleanup: Cleanup | None = None
    excerpts: tuple[Excerpt, ...] = ()
    sums_sha256: str = ""


def read(folder: Path) -> Attached:
    """Read what a run's folder holds; what is missing or cannot be read is left out."""
    cleanup, sums = None, ""
    with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
        cleanup = msgspec.json.decode((folder / store.CLEANUP).read_bytes(), type=Cleanup)
    with contextlib.suppress(OSError):
        sums = hashlib.sha256((folder / store.SUMS).read_bytes()).hexdigest()
    excerpts = tuple(
        _excerpt(folder, f"logs/{name}") for name in _LOGS if (folder / "logs" / name).is_file()
    )
    return Attached(cleanup=cleanup, excerpts=excerpts, sums_sha256=sums)


def _excerpt(folder: Path, name: str) -> Excerpt:
    with (folder / name).open("rb") as log:
        size = log.seek(0, 2)
        log.seek(max(0, size - _EXCERPT_BYTES))
        end = log.read()
    lines = end.decode("utf-8", "surrogateescape").split("\n")
    if size > len(end) and len(lines) > 1:
        del lines[0]
    while lines and not lines[-1]:
        lines.pop()
    return Excerpt(name=name, size_bytes=size, text="\n".join(lines[-_EXCERPT_LINES:]))
