"""``python -m sessions.evidence report``: the evidence room from the command line."""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

from sessions.evidence import screen, store
from sessions.evidence.compare import compare
from sessions.evidence.records import PairVerdict
from wasm import terminal
from wasm.errors import EvidenceError


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
    latest = arguments.evidence / "latest"
    folders = {
        "baseline": (arguments.baseline or latest / "baseline").resolve(),
        "fixed": (arguments.fixed or latest / "fixed").resolve(),
    }
    baseline, baseline_results = store.read_run(folders["baseline"])
    fixed, fixed_results = store.read_run(folders["fixed"])
    comparison = compare(baseline, baseline_results, fixed, fixed_results)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    bundle = arguments.evidence / "bundles" / f"{stamp}-{secrets.token_hex(3)}"
    for name, folder in folders.items():
        shutil.copytree(folder, bundle / name)
    store.write_json(bundle / "comparison.json", comparison)
    store.seal(bundle)
    store.link_latest(arguments.evidence, "bundle", bundle)
    screen.show(comparison, bundle)
    if comparison.verdict is not PairVerdict.PROVEN:
        raise EvidenceError(f"{comparison.verdict}: {comparison.reasons[0]}")


if __name__ == "__main__":
    terminal.finish(lambda: main(sys.argv[1:]))
