"""``python -m sessions.evidence report``: the evidence room from the command line."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from sessions.evidence import folders, screen, store
from sessions.evidence.compare import compare
from sessions.evidence.records import PairVerdict
from wasm import terminal
from wasm.errors import EvidenceError
from wasm.records import Variant


def main(argv: list[str]) -> None:
    """Run one command of the evidence room."""
    parser = argparse.ArgumentParser(prog="python -m sessions.evidence", description=__doc__)
    commands = parser.add_subparsers(required=True)
    report = commands.add_parser("report", help="compare a baseline and a fixed run")
    report.add_argument("--evidence", type=Path, required=True, help="the evidence folder")
    report.add_argument("--baseline", type=Path, help="a run's folder (the latest)")
    report.add_argument("--fixed", type=Path, help="a run's folder (the latest)")
    report.set_defaults(command=_report)
    arguments = parser.parse_args(argv)
    arguments.command(arguments)


def _report(arguments: argparse.Namespace) -> None:
    evidence = arguments.evidence
    runs = {
        Variant.BASELINE: (arguments.baseline or folders.latest(evidence, "baseline")).resolve(),
        Variant.FIXED: (arguments.fixed or folders.latest(evidence, "fixed")).resolve(),
    }
    comparison = compare(
        *store.read_run(runs[Variant.BASELINE]), *store.read_run(runs[Variant.FIXED])
    )
    bundle = folders.new_bundle(evidence)
    try:
        for variant, folder in runs.items():
            shutil.copytree(folder, bundle / variant)
        store.write_json(bundle / "comparison.json", comparison)
        store.seal(bundle)
    except BaseException:
        shutil.rmtree(bundle, ignore_errors=True)
        raise
    folders.point_latest(evidence, "bundle", bundle)
    screen.show(comparison, bundle)
    if comparison.verdict is not PairVerdict.PROVEN:
        raise EvidenceError(f"{comparison.verdict}: {comparison.reasons[0]}")


if __name__ == "__main__":
    terminal.finish(lambda: main(sys.argv[1:]))
