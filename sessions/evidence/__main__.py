"""``python -m sessions.evidence report|verify``: the evidence room from the command line."""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path

from sessions.evidence import verify
from sessions.evidence.pair import bundle
from sessions.evidence.record import folders
from sessions.evidence.record.records import PairVerdict
from sessions.evidence.report import terminal_report
from wasm.foundation import terminal
from wasm.foundation.errors import EvidenceError
from wasm.records import Variant


def main(argv: list[str]) -> None:
    """Run one command of the evidence room."""
    parser = argparse.ArgumentParser(prog="python -m sessions.evidence", description=__doc__)
    commands = parser.add_subparsers(required=True)
    report = commands.add_parser("report", help="compare a baseline and a fixed run")
    report.add_argument("--evidence", type=Path, required=True, help="the evidence folder")
    report.add_argument("--baseline", type=Path, help="a run's folder (the latest)")
    report.add_argument("--fixed", type=Path, help="a run's folder (the latest)")
    report.add_argument("--sign", type=Path, help="an SSH key that signs the bundle")
    report.set_defaults(command=_report)
    verify = commands.add_parser("verify", help="check a bundle again, from its observations")
    verify.add_argument("path", type=Path, help="a bundle's folder or .zip, or a run's folder")
    verify.add_argument("--allowed-signers", type=Path, help="who may have signed it")
    verify.set_defaults(command=_verify)
    arguments = parser.parse_args(argv)
    # Records are trees that live to the end: to look for cycles in them takes half of the time.
    gc.disable()
    arguments.command(arguments)


def _report(arguments: argparse.Namespace) -> None:
    evidence = arguments.evidence
    runs = {
        Variant.BASELINE: folders.target(
            arguments.baseline or folders.latest(evidence, "baseline")
        ),
        Variant.FIXED: folders.target(arguments.fixed or folders.latest(evidence, "fixed")),
    }
    made = bundle.make(evidence, runs, arguments.sign)
    folders.point_latest(evidence, "bundle", made.folder)
    print(f"archive {made.archive}\n        SHA-256 {made.archive_sha256}\n")
    sys.stdout.flush()
    terminal_report.show(made.comparison, made.folder)
    if made.comparison.verdict is not PairVerdict.PROVEN:
        raise EvidenceError(made.comparison.headline)


def _verify(arguments: argparse.Namespace) -> None:
    found = verify.of(arguments.path, arguments.allowed_signers)
    for line in found.lines:
        print(line)
    sys.stdout.flush()
    if not found.holds:
        raise EvidenceError(found.summary)


if __name__ == "__main__":
    terminal.finish(lambda: main(sys.argv[1:]))
