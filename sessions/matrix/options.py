"""The options that say which cells are run; data, standard library only (see wasm/options.py)."""

from __future__ import annotations

import argparse
from typing import Any

from wasm.foundation import paths

# 60,000 cells of the bundled cases, which take minutes; more is a slip of the hand.
_REPEATS_AT_MOST = 10_000


def _repeats(text: str) -> int:
    # int() refuses a number of thousands of digits.
    short = len(text) <= len(str(_REPEATS_AT_MOST))
    number = int(text) if short and text.isascii() and text.isdigit() else 0
    if not 1 <= number <= _REPEATS_AT_MOST:
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected a whole number from 1 to {_REPEATS_AT_MOST}"
        )
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
        "type": _repeats,
        "help": "how often each case runs in each mode; release evidence needs 3 or more (3)",
    },
}
