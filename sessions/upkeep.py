"""Putting things away."""

from __future__ import annotations

import nox

from sessions import steps
from sessions.environment import prepare


@nox.session
def clean(session: nox.Session) -> None:
    """Remove what dead runs left, our images, and the cache; not evidence, nor a live run's."""
    prepare(session, "clean")
    with steps.ending_in_a_sentence(session):
        steps.run(session, "-m", "containers", "clean")
