"""Putting things away."""

from __future__ import annotations

import shutil

import nox

from sessions import steps
from sessions.environment import prepare
from sessions.evidence.record import folders


@nox.session
def clean(session: nox.Session) -> None:
    """Remove what dead runs left, half-written evidence too, our images, and the cache."""
    options = prepare(session, "clean")
    with steps.ending_in_a_sentence(session):
        for left in [*folders.unfinished(options.evidence)]:
            shutil.rmtree(left) if left.is_dir() else left.unlink()
            session.log(f"removed: {left}, which was half-written")
        steps.run(session, "-m", "containers", "clean")
