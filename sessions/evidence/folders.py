"""Where evidence lies: a folder per run, a folder per bundle, and links to the latest of each.

Standard library only: sessions make a run's folder before anything else is known of it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def new_run(evidence: Path, name: str) -> Path:
    """Make a new run's folder; its name sorts by time and is no other run's."""
    folder = evidence / "runs" / _unique(f"-{name}")
    folder.mkdir(parents=True)
    return folder


def new_bundle(evidence: Path) -> Path:
    """Make a new bundle's folder, likewise."""
    folder = evidence / "bundles" / _unique("")
    folder.mkdir(parents=True)
    return folder


def latest(evidence: Path, name: str) -> Path:
    """Return the link to the latest ``baseline``, ``fixed`` or ``bundle``."""
    return evidence / "latest" / name


def point_latest(evidence: Path, name: str, target: Path) -> None:
    """Let the link point to a folder, in one step."""
    link = latest(evidence, name)
    link.parent.mkdir(parents=True, exist_ok=True)
    draft = link.with_name(f".{name}-{secrets.token_hex(3)}")
    draft.symlink_to(os.path.relpath(target, link.parent))
    draft.replace(link)


def forget_latest(evidence: Path, name: str) -> None:
    """Remove the link, so that a run that fails early leaves no older one in its place."""
    with contextlib.suppress(FileNotFoundError):
        latest(evidence, name).unlink()


def _unique(suffix: str) -> str:
    return f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}{suffix}-{secrets.token_hex(3)}"
