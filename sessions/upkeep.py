"""Putting things away."""

from __future__ import annotations

import shutil

import nox

from sessions.options import PROJECT


@nox.session(venv_backend="none")
def clean(session: nox.Session) -> None:
    """Remove the cache of modules and sources; evidence stays."""
    cache = PROJECT / ".cache"
    session.log(f"removing {cache}")
    shutil.rmtree(cache, ignore_errors=True)
