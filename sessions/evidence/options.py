"""The options of the evidence room; data, standard library only (see wasm/options.py)."""

from __future__ import annotations

from typing import Any

from wasm.foundation import paths

EVIDENCE_OPTIONS: dict[str, dict[str, Any]] = {
    "--sign": {
        "default": None,
        "metavar": "KEY",
        "type": paths.named,
        "help": "sign the bundle with this SSH key, or the public half of one that an agent has",
    },
    "--allowed-signers": {
        "default": None,
        "metavar": "FILE",
        "type": paths.named,
        "help": "for verify: who may have signed it, as in ssh-keygen(1), ALLOWED SIGNERS",
    },
}
# What `nox -s verify` takes beside its options.
PATH: dict[str, Any] = {
    "nargs": "?",
    "default": None,
    "type": paths.named,
    "metavar": "PATH",
    "help": "a bundle's folder or .zip, or a run's folder (the latest bundle)",
}
