"""Where evidence lies: a folder per run, a folder per bundle, and links to the latest of each.

Nothing but the standard library is needed: sessions make a run's folder before anything else is
known of it.
"""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from wasm.errors import EvidenceError

if TYPE_CHECKING:
    from pathlib import Path


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


def forget_latest(evidence: Path, name: str) -> None:
    """Remove the link, so that a run that fails early leaves no older one in its place.

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


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise EvidenceError(
            f"no folder can be made in {folder.parent} ({error.strerror}); expected one that can "
            "be written to; name another with --evidence"
        ) from error
    return folder


def _in_the_way(link: Path, error: OSError) -> EvidenceError:
    there = next(path for path in (link, *link.parents) if os.path.lexists(path))
    return EvidenceError(
        f"{there} cannot be replaced or written to ({error.strerror}); expected what we make there "
        "or nothing; move it away, or name another folder with --evidence"
    )


def _unique(suffix: str) -> str:
    return f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}{suffix}-{secrets.token_hex(3)}"
