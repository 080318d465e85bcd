"""The sessions that prove: Go's tests, the matrix on each variant, and the two compared."""

from __future__ import annotations

import secrets
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import nox

from containers.options import TESTBED_OPTIONS
from sessions import steps
from sessions.environment import prepare
from sessions.matrix.options import MATRIX_OPTIONS
from sessions.options import forwarded
from wasm.options import SOURCE_OPTIONS

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

_PYTEST = ("-m", "pytest", "tests/runtime", "--quiet", "--capture=no", "--tb=short", "-r", "fE")


@nox.session
def unit(session: nox.Session) -> None:
    """Run go vet, go test ./provider and go test ./... on the fixed variant."""
    options = prepare(session, "unit")
    with steps.ending_in_a_sentence(session):
        folder = _new_run(options.evidence, "unit")
        source = forwarded(options, SOURCE_OPTIONS)
        output = f"--output={folder / 'unit.json'}"
        steps.run(session, "-m", "wasm", "unit", "--variant=fixed", output, *source)


@nox.session(name="runtime-baseline")
def runtime_baseline(session: nox.Session) -> None:
    """Run the matrix on the baseline: succeeds when it fails exactly as declared."""
    options = prepare(session, "runtime-baseline")
    with steps.ending_in_a_sentence(session):
        _run_matrix(session, options, "baseline")


@nox.session(name="runtime-fixed")
def runtime_fixed(session: nox.Session) -> None:
    """Run the matrix on the fixed module: succeeds when every cell holds; then compare."""
    options = prepare(session, "runtime-fixed")
    with steps.ending_in_a_sentence(session):
        try:
            _run_matrix(session, options, "fixed")
        finally:
            latest = options.evidence / "latest"
            if (latest / "baseline").exists() and (latest / "fixed").exists():
                steps.attempt(session, *_report(options))


@nox.session
def report(session: nox.Session) -> None:
    """Compare the latest baseline and fixed run: succeeds when the fix is proven."""
    options = prepare(session, "report")
    with steps.ending_in_a_sentence(session):
        steps.run(session, *_report(options))


def _report(options: argparse.Namespace) -> list[str]:
    return ["-m", "sessions.evidence", "report", f"--evidence={options.evidence}"]


def _run_matrix(session: nox.Session, options: argparse.Namespace, variant: str) -> None:
    """Build a variant, run the matrix on it, and let ``latest`` point to the run."""
    link = options.evidence / "latest" / variant
    link.unlink(missing_ok=True)
    folder = _new_run(options.evidence, variant)
    record = folder / "module.json"
    source = forwarded(options, SOURCE_OPTIONS)
    matrix = forwarded(options, [*TESTBED_OPTIONS, *MATRIX_OPTIONS])
    built = False
    try:
        steps.run(
            session, "-m", "wasm", "build", f"--variant={variant}", f"--output={record}", *source
        )
        built = True
        steps.run(session, *_PYTEST, f"--module={record}", f"--run-dir={folder}", *matrix)
    finally:
        if not built:
            shutil.rmtree(folder, ignore_errors=True)


def _new_run(evidence: Path, name: str) -> Path:
    """Return a new run's folder: its name sorts by time and is no other run's."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = evidence / "runs" / f"{stamp}-{name}-{secrets.token_hex(3)}"
    folder.mkdir(parents=True)
    return folder
