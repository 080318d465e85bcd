"""The sessions that prove: Go's tests, the matrix on each variant, and the two compared."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import nox

from containers.options import TESTBED_OPTIONS
from sessions import steps
from sessions.environment import prepare
from sessions.evidence import folders
from sessions.matrix.options import MATRIX_OPTIONS
from sessions.options import forwarded
from wasm.options import SOURCE_OPTIONS

if TYPE_CHECKING:
    import argparse

_PYTEST = ("-m", "pytest", "tests/runtime", "--quiet", "--capture=no", "--tb=short", "-r", "fE")


@nox.session
def unit(session: nox.Session) -> None:
    """Run go vet, go test ./provider and go test ./... on the fixed variant."""
    options = prepare(session, "unit")
    with steps.ending_in_a_sentence(session):
        folder = folders.new_run(options.evidence, "unit")
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
            if all(
                folders.latest(options.evidence, name).exists() for name in ("baseline", "fixed")
            ):
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
    """Run the matrix on a variant, and let ``latest`` point to what was recorded."""
    folders.forget_latest(options.evidence, variant)
    run = folders.new_run(options.evidence, variant)
    argv = [f"--variant={variant}", f"--run-dir={run}", f"--junit-xml={run / 'junit.xml'}"]
    argv += forwarded(options, [*SOURCE_OPTIONS, *TESTBED_OPTIONS, *MATRIX_OPTIONS])
    try:
        steps.run(session, *_PYTEST, *argv)
    finally:
        if (run / "run.json").exists():
            folders.point_latest(options.evidence, variant, run)
        else:
            shutil.rmtree(run)
