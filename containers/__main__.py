"""``python -m containers sweep``: the containers room from the command line."""

from __future__ import annotations

import argparse
import sys

from containers import sweep
from containers.docker import server
from containers.records import EngineKind
from wasm.foundation import terminal
from wasm.foundation.errors import GatewayError


def main(argv: list[str]) -> None:
    """Run one command of the containers room.

    Raises:
        GatewayError: Something that should have been removed could not be.
    """
    parser = argparse.ArgumentParser(prog="python -m containers", description=__doc__)
    parser.add_argument(
        "command",
        choices=["sweep", "clean"],
        help="remove what dead runs left; clean: our images and the cache too",
    )
    clean = parser.parse_args(argv).command == "clean"
    swept = sweep.everything_unused() if clean else sweep.of_dead_runs(_engine())
    outcomes = []
    for outcome in swept:
        print(outcome, flush=True)
        outcomes.append(outcome)
    if not outcomes:
        print("nothing of ours was left")
    stuck = [each.name for each in outcomes if each.fate is sweep.Fate.STUCK]
    if stuck:
        raise GatewayError(
            f"{len(stuck)} of what dead runs left could not be swept, first "
            f"{stuck[0]}; expected it to go; remove it by hand, or try again later"
        )


def _engine() -> EngineKind:
    try:
        server.connect().close()
    except GatewayError:
        return EngineKind.PROCESS
    return EngineKind.DOCKER


if __name__ == "__main__":
    terminal.finish(lambda: main(sys.argv[1:]))
