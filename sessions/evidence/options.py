"""The options of the evidence room; data, standard library only (see wasm/options.py)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def _file(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("found '', expected a file")
    return Path(text).expanduser()


# Relative ones are seen from where nox was started.
EVIDENCE_OPTIONS: dict[str, dict[str, Any]] = {
    "--sign": {
        "default": None,
        "metavar": "KEY",
        "type": _file,
        "help": "sign the bundle with this SSH key, or the public half of one that an agent has",
    },
    "--allowed-signers": {
        "default": None,
        "metavar": "FILE",
        "type": _file,
        "help": "for verify: who may have signed it, as in ssh-keygen(1), ALLOWED SIGNERS",
    },
}
# What `nox -s verify` takes beside its options.
PATH: dict[str, Any] = {
    "nargs": "?",
    "default": None,
    "type": _file,
    "metavar": "PATH",
    "help": "a bundle's folder or .zip, or a run's folder (the latest bundle)",
}
