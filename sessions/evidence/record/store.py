"""Evidence on disk: writing a run as it happens, reading it back, and the links to the latest.

A run's folder: run.json, cells.jsonl, cleanup.json, module.json, junit.xml, config/, logs/ and,
written last, SHA256SUMS over all of them.
"""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from containers import envoy_config
from sessions.evidence.record import folders
from sessions.evidence.record.records import RUN_SCHEMA, Run
from sessions.matrix.records import Result
from wasm.foundation import paths
from wasm.foundation.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wasm.records import Module

RUN = "run.json"
CELLS = "cells.jsonl"
CLEANUP = "cleanup.json"
ENVOY = envoy_config.BOOTSTRAP
LISTENERS = envoy_config.LISTENERS
FIX = "config/fix.patch"
UNCOMMITTED = "config/uncommitted.patch"
SUMS, SIGNATURE = folders.SUMS, folders.SIGNATURE
seal, as_sums, digests = folders.seal, folders.as_sums, folders.digests
_NOT_WRITABLE = {
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG),
}


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn a disk that is full or cannot be written into the sentence that says so."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise EvidenceError(
                f"no space left on the disk of {folder}; expected room for a run's evidence, about "
                "1 MB; free some, or name a folder on another disk with --evidence"
            ) from error
        if error.errno in _NOT_WRITABLE:
            raise EvidenceError(
                f"cannot write below {folder} ({error.strerror}); expected a folder for evidence; "
                "name one that can be written with --evidence"
            ) from error
        raise


def write_json(path: Path, record: object) -> None:
    """Write a record as indented JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(as_json(record))


def as_json(record: object) -> bytes:
    """Return a record as it is written: the same record, the same bytes."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


def write_cells(folder: Path, results: Iterable[Result]) -> None:
    """Write a run's cells, one JSON object a line."""
    (folder / CELLS).write_bytes(as_lines(results))


def as_lines(results: Iterable[Result]) -> bytes:
    """Return cells as they are written."""
    return b"".join(msgspec.json.encode(result) + b"\n" for result in results)


def write_patches(folder: Path, module: Module) -> None:
    """Write the changes that a module's record holds as files that `git apply` takes."""
    source = module.source
    fix = source.fix.patch if source.fix else None
    for name, patch in ((FIX, fix), (UNCOMMITTED, source.uncommitted)):
        if patch is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(patch.content)


def read_run(folder: Path) -> tuple[Run, tuple[Result, ...]]:
    """Read a run and its cells.

    Raises:
        EvidenceError: There is no run in that folder, or it is not what we write.
    """
    try:
        run = msgspec.json.decode(paths.content(folder / RUN), type=Run)
        if run.schema != RUN_SCHEMA:
            raise EvidenceError(
                f"the run in {folder} is of schema {run.schema}, expected {RUN_SCHEMA}; it was "
                "made by another version, so run it again"
            )
        lines = paths.content(folder / CELLS).split(b"\n")
        if lines and not lines[-1]:
            lines.pop()
        return run, tuple(msgspec.json.decode(line, type=Result) for line in lines)
    except OSError as error:
        raise EvidenceError(
            f"no run in {folder} ({error.strerror}: {Path(str(error.filename)).name}); expected "
            "the folder that a runtime session wrote; run `nox -s runtime-baseline runtime-fixed`"
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EvidenceError(
            f"the run in {folder} cannot be read: {error}; expected the files that a runtime "
            "session wrote, unchanged; run it again"
        ) from error
