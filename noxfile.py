"""The door: `nox -l` lists what can be done, `nox -s SESSION -- --help` with which options."""

from __future__ import annotations

import sys
from pathlib import Path

import nox

# The nox script, unlike `python -m nox`, does not look beside the noxfile for modules.
sys.path.insert(0, str(Path(__file__).parent))

from sessions import checks, proofs, upkeep

nox.needs_version = ">=2026.10"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["runtime-baseline", "runtime-fixed"]

__all__ = ["checks", "proofs", "upkeep"]
