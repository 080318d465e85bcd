"""The options that say how a testbed is run; data, standard library only (see wasm/options.py)."""

from __future__ import annotations

from typing import Any

from wasm.foundation import paths

TESTBED_OPTIONS: dict[str, dict[str, Any]] = {
    "--engine": {
        "default": "auto",
        "choices": ["auto", "docker", "process"],
        "help": "containers, or local processes on a machine without Docker (auto)",
    },
    "--gateway": {
        "default": "auto",
        "choices": ["auto", "higress", "envoy"],
        "help": "the pinned Higress gateway, or stock Envoy, which is no release evidence (auto)",
    },
    "--gateway-image": {
        "default": None,
        "metavar": "REF",
        "help": "another gateway image than the pinned one",
    },
    "--keep": {
        "action": "store_true",
        "help": "leave the testbed open after the matrix, for a look at it, until Ctrl-C",
    },
    "--envoy": {
        "default": None,
        "metavar": "PATH",
        "type": paths.program,
        "help": "Envoy's program for the process engine (the one from PyPI)",
    },
}
