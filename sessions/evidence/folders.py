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
    return _made(evidence, evidence / "runs" / _unique(f"-{name}"))


def new_bundle(evidence: Path) -> Path:
    """Make a new bundle's folder, likewise.

    Raises:
        EvidenceError: It cannot be made there.
    """
    return _made(evidence, evidence / "bundles" / _unique(""))


def new_patch(evidence: Path, name: str) -> Path:
    """Return where a new patch goes; its name sorts by time and is no other's."""
    return evidence / "patches" / f"{_unique(f'-{name}')}.patch"


def latest(evidence: Path, name: str) -> Path:
    """Return the link to the latest ``baseline``, ``fixed`` or ``bundle``."""
    return evidence / "latest" / name


def point_latest(evidence: Path, name: str, target: Path) -> None:
    """Let the link point to a folder, in one step; relative, so that the whole can be moved.

    Raises:
        EvidenceError: Something that is no link is in its place.
    """
    link = latest(evidence, name)
    link.parent.mkdir(parents=True, exist_ok=True)
    draft = link.with_name(f".{name}-{secrets.token_hex(3)}")
    draft.symlink_to(os.path.relpath(target, link.parent))
    try:
        draft.replace(link)
    except OSError as error:
        draft.unlink()
        raise _in_the_way(link, error) from error


def forget_latest(evidence: Path, name: str) -> None:
    """Remove the link, so that a run that fails early leaves no older one in its place.

    Raises:
        EvidenceError: Something that is no link is in its place.
    """
    link = latest(evidence, name)
    try:
        link.unlink(missing_ok=True)
    except NotADirectoryError:
        return  # new_run says what is wrong with that folder
    except OSError as error:
        raise _in_the_way(link, error) from error


def _made(evidence: Path, folder: Path) -> Path:
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise EvidenceError(
            f"no folder can be made in {evidence} ({error.strerror}); expected one that can be "
            "written to; name another with --evidence"
        ) from error
    return folder


def _in_the_way(link: Path, error: OSError) -> EvidenceError:
    return EvidenceError(
        f"{link} cannot be replaced ({error.strerror}); expected a link of ours or nothing there; "
        "move it away"
    )


def _unique(suffix: str) -> str:
    return f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}{suffix}-{secrets.token_hex(3)}"
