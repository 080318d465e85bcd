"""The options that say which cells are run; data, standard library only (see wasm/options.py)."""

from __future__ import annotations

import argparse
from typing import Any

from wasm import paths


def _at_least_one(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number from 1")
    return number


MATRIX_OPTIONS: dict[str, dict[str, Any]] = {
    "--cases": {
        "default": None,
        "metavar": "DIR",
        "type": paths.named,
        "help": "a folder of case files (the bundled ones: sessions/matrix/cases)",
    },
    "--case": {
        "default": "*",
        "metavar": "GLOB",
        "help": "only the cases whose name matches (*)",
    },
    "--repeat": {
        "default": 3,
        "metavar": "N",
        "type": _at_least_one,
        "help": "how often each case runs in each mode; release evidence needs 3 or more (3)",
    },
}
