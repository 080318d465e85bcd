"""Where evidence lies: a folder per run, a folder per bundle, and links to the latest of each.

A folder is sealed with SHA256SUMS when all else is written. Until then its process holds a lock on
it, which the kernel lets go of however that process ends: a folder that is neither sealed nor held
was left by one that was killed.

Nothing but the standard library is needed: sessions make a run's folder before anything else is
known of it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from wasm.foundation.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUMS = "SHA256SUMS"
SIGNATURE = f"{SUMS}.sig"
_FINISHED = (SUMS, "unit.json", "mutants.json")
_NAME = re.compile(r"\d{8}T\d{6}Z(-[a-z-]+)?-[0-9a-f]{6}")
_held: dict[Path, int] = {}


def new_run(evidence: Path, name: str) -> Path:
    """Make a new run's folder; its name sorts by time and is no other run's.

    Raises:
        EvidenceError: It cannot be made there.
    """
    return _made(evidence / "runs" / _unique(f"-{name}"))


def new_bundle(evidence: Path) -> Path:
    """Make a new bundle's folder, likewise.

    Raises:
        EvidenceError: It cannot be made there.
    """
    return _made(evidence / "bundles" / _unique(""))


def new_patch(evidence: Path, name: str) -> Path:
    """Return where a new patch goes; its name sorts by time and is no other's."""
    return evidence / "patches" / f"{_unique(f'-{name}')}.patch"


def latest(evidence: Path, name: str) -> Path:
    """Return the link to the latest ``baseline``, ``fixed`` or ``bundle``."""
    return evidence / "latest" / name


def target(link: Path) -> Path:
    """Return where a link leads, or a place that is none; a loop of links leads to itself.

    Path.resolve raises RuntimeError for such a one.
    """
    return link.parent / os.path.realpath(link)


def point_latest(evidence: Path, name: str, target: Path) -> None:
    """Let the link point to a folder, in one step; relative, so that the whole can be moved.

    Raises:
        EvidenceError: It cannot be made there: something that is no link is in its place, say.
    """
    link = latest(evidence, name)
    draft = link.with_name(f".{name}-{secrets.token_hex(3)}")
    try:
        link.parent.mkdir(parents=True, exist_ok=True)
        draft.symlink_to(os.path.relpath(target, link.parent))
        try:
            draft.replace(link)
        except OSError:
            draft.unlink()
            raise
    except OSError as error:
        raise _in_the_way(link, error) from error


def refuse_latest_in_the_way(evidence: Path, name: str) -> None:
    """Refuse a link that :func:`point_latest` could not replace, before anything is run.

    Raises:
        EvidenceError: Something that is no link is in its place, say.
    """
    link = latest(evidence, name)
    try:
        if link.is_dir() and not link.is_symlink():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(link))
        if link.parent.is_dir() and not os.access(link.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(link.parent))
        os.lstat(link)
    except FileNotFoundError:
        pass
    except OSError as error:
        if evidence.is_dir():
            raise _in_the_way(link, error) from error
        # else new_run says what is wrong with that folder


def forget_latest(evidence: Path, name: str) -> None:
    """Remove the link, so that what is begun anew has no older results in its place.

    Raises:
        EvidenceError: It cannot be removed: something that is no link is in its place, say.
    """
    link = latest(evidence, name)
    try:
        link.unlink(missing_ok=True)
    except OSError as error:
        if evidence.is_dir():
            raise _in_the_way(link, error) from error
        # else new_run says what is wrong with that folder


def opened(run: Path) -> bool:
    """Whether a run has come as far as a testbed: one that has not has nothing to compare."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        return json.loads((run / "run.json").read_bytes())["testbed"] is not None
    return False


def hold(folder: Path) -> None:
    """Let nobody take a folder for one that a killed process left, as long as this one lives."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        _held[folder] = handle
        fcntl.flock(handle, fcntl.LOCK_SH)


def release(folder: Path) -> None:
    """Hold a folder no longer: it is finished."""
    handle = _held.pop(folder, None)
    if handle is not None:
        os.close(handle)


def unfinished(evidence: Path) -> Iterator[Path]:
    """Give what killed processes left half-written: runs, bundles, and drafts of archives."""
    for shelf in ("runs", "bundles"):
        for path in sorted((evidence / shelf).glob("*")):
            ours = _NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
            if ours and not any((path / name).exists() for name in _FINISHED) and not _live(path):
                yield path
    for draft in sorted((evidence / "bundles").glob(".*.zip.draft")):
        bundle = draft.with_name(draft.name[1:].removesuffix(".zip.draft"))
        if _NAME.fullmatch(bundle.name) and not _live(bundle):
            yield draft


def _live(folder: Path) -> bool:
    """Whether a process holds a folder; what cannot be looked at may be held."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise EvidenceError(
            f"no folder can be made in {folder.parent} ({error.strerror}); expected one that can "
            "be written to; name another with --evidence"
        ) from error
    hold(folder)
    return folder


def _in_the_way(link: Path, error: OSError) -> EvidenceError:
    there = next(path for path in (link, *link.parents) if os.path.lexists(path))
    return EvidenceError(
        f"{there} cannot be replaced or written to ({error.strerror}); expected what we make there "
        "or nothing; move it away, or name another folder with --evidence"
    )


def _unique(suffix: str) -> str:
    return f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}{suffix}-{secrets.token_hex(3)}"


def seal(folder: Path) -> str:
    """Write SHA256SUMS over every file of a folder, last of all; return its own digest."""
    content = as_sums(digests(folder))
    (folder / SUMS).write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def as_sums(found: dict[str, str]) -> bytes:
    """Return digests by name as SHA256SUMS holds them; `sha256sum --check` reads that."""
    return "".join(f"{digest}  {name}\n" for name, digest in found.items()).encode()


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a folder, by name, in order.

    Not of its own SHA256SUMS, nor of the signature on that.
    """
    found = {}
    own = (folder / SUMS, folder / SIGNATURE)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path not in own:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[path.relative_to(folder).as_posix()] = digest
    return found
