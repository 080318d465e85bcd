"""``python -m containers sweep``: the containers room from the command line."""

from __future__ import annotations

import argparse
import sys

from containers import sweep
from wasm import terminal


def main(argv: list[str]) -> None:
    """Run one command of the containers room."""
    parser = argparse.ArgumentParser(prog="python -m containers", description=__doc__)
    parser.add_argument("command", choices=["sweep"], help="remove what dead runs left")
    parser.parse_args(argv)
    swept = sweep.everything_unused()
    print("\n".join(swept.lines) or "nothing of ours was left")


if __name__ == "__main__":
    terminal.finish(lambda: main(sys.argv[1:]))
