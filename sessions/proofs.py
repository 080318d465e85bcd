"""The sessions that prove: Go's tests, the matrix on each variant, and the two compared."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
from typing import TYPE_CHECKING

import nox

from containers.options import TESTBED_OPTIONS
from sessions import steps
from sessions.environment import prepare
from sessions.evidence import folders
from sessions.matrix.options import MATRIX_OPTIONS
from sessions.options import forwarded
from wasm.options import SOURCE_OPTIONS, UNIT_OPTIONS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

# The runs that this command has made, by variant: another's may be the latest by now.
_MADE_HERE: dict[str, Path] = {}
_DOLLAR = "GATEWAY_PROOF_DOLLAR"
# Our own warnings are errors (pyproject.toml); a library's is none to a user.
_PYTEST = (
    *("-m", "pytest", "tests/runtime", "--quiet", "--capture=no", "--tb=short", "-r", "fE"),
    *("-W", "ignore"),
)


@nox.session
def unit(session: nox.Session) -> None:
    """Run go vet, go test ./provider and go test ./... on the fixed variant, or on both."""
    options = prepare(session, "unit")
    with steps.ending_in_a_sentence(session):
        both = ["baseline", "fixed"]
        failures = []
        for variant in both if options.variant == "both" else [options.variant]:
            try:
                _run_unit(session, options, variant)
            except steps.StepFailed as failure:
                failures.append(failure)
        for earlier in failures[:-1]:
            session.warn(str(earlier))
        if failures:
            raise failures[-1]


@nox.session(name="runtime-baseline")
def runtime_baseline(session: nox.Session) -> None:
    """Run the matrix on the baseline: succeeds when it fails exactly as declared."""
    options = prepare(session, "runtime-baseline")
    with (
        steps.ending_in_a_sentence(session),
        _comparison_at_the_end(session, options, wanted="fixed" in _MADE_HERE),
    ):
        _run_matrix(session, options, "baseline")


@nox.session(name="runtime-fixed")
def runtime_fixed(session: nox.Session) -> None:
    """Run the matrix on the fixed module: succeeds when every cell holds; then compare."""
    options = prepare(session, "runtime-fixed")
    with steps.ending_in_a_sentence(session):
        stale = _is_to_come(session, "runtime-baseline")
        if stale:
            session.log("the comparison follows runtime-baseline, which this command runs later")
        with _comparison_at_the_end(session, options, wanted=not stale):
            _run_matrix(session, options, "fixed")


@nox.session
def report(session: nox.Session) -> None:
    """Compare the latest baseline and fixed run: succeeds when the fix is proven."""
    options = prepare(session, "report")
    with steps.ending_in_a_sentence(session):
        steps.run(session, *_report(options, {}))


@nox.session
def verify(session: nox.Session) -> None:
    """Check a bundle again from its raw observations, offline: succeeds when all of it holds."""
    options = prepare(session, "verify")
    with steps.ending_in_a_sentence(session):
        path = options.path or folders.latest(options.evidence, "bundle")
        argv = ["-m", "sessions.evidence", "verify", str(path)]
        if options.allowed_signers:
            argv.append(f"--allowed-signers={options.allowed_signers}")
        steps.run(session, *argv)


@nox.session
def patch(session: nox.Session) -> None:
    """Write the fix for #4396 and its regression tests as a patch, proved on the source."""
    options = prepare(session, "patch")
    with steps.ending_in_a_sentence(session):
        output = folders.new_patch(options.evidence, "higress-4396")
        source = forwarded(options, SOURCE_OPTIONS)
        steps.run(session, "-m", "wasm", "patch", f"--output={output}", *source)


@nox.session
def mutants(session: nox.Session) -> None:
    """Test wrong fixes of #4396: succeeds when the regression tests and the matrix catch each."""
    options = prepare(session, "mutants")
    with steps.ending_in_a_sentence(session):
        folder = folders.new_run(options.evidence, "mutants")
        record = folder / "mutants.json"
        try:
            source = forwarded(options, SOURCE_OPTIONS)
            steps.run(session, "-m", "wasm", "mutants", f"--output={folder}", *source)
            recorded = json.loads(record.read_bytes())
            for mutant in [recorded["fix"], *recorded["mutants"]]:
                if mutant["visible_at_runtime"]:
                    _run_mutant(session, options, folder, mutant)
            steps.run(session, "-m", "sessions.evidence.mutants", str(folder))
        finally:
            if not record.exists():
                shutil.rmtree(folder, ignore_errors=True)


def _is_to_come(session: nox.Session, name: str) -> bool:
    """Whether this command has yet to run a session: what an earlier one left is then stale."""
    manifest = session._runner.manifest  # noqa: SLF001 - nox tells it nowhere else
    return any(
        is_queued and runner.friendly_name == name
        for runner, is_queued in manifest.list_all_sessions()
    )


@contextlib.contextmanager
def _comparison_at_the_end(
    session: nox.Session, options: argparse.Namespace, *, wanted: bool
) -> Iterator[None]:
    """Compare both runs after a matrix, whether it held or not; then raise what it failed with."""
    held: steps.StepFailed | None = None
    try:
        yield
    except steps.StepFailed as failure:
        held = failure
    if wanted:
        _compare(session, options, decides=held is None)
    if held is not None:
        raise held


def _compare(session: nox.Session, options: argparse.Namespace, *, decides: bool) -> None:
    """Compare what was recorded, once there are both runs.

    It decides the session when both runs were made by this very command, and the matrix itself
    did not fail: an older baseline may well have been made with other options.
    """
    runs = {
        variant: folders.latest(options.evidence, variant).resolve()
        for variant in ("baseline", "fixed")
    }
    runs |= _MADE_HERE
    if not all(run.is_dir() for run in runs.values()):
        return
    if decides and {"baseline", "fixed"} <= {*_MADE_HERE}:
        steps.run(session, *_report(options, runs))
    else:
        steps.attempt(session, *_report(options, runs))


def _report(options: argparse.Namespace, runs: dict[str, Path]) -> list[str]:
    argv = ["-m", "sessions.evidence", "report", f"--evidence={options.evidence}"]
    argv += [f"--{variant}={run}" for variant, run in runs.items()]
    if options.sign:
        argv.append(f"--sign={options.sign}")
    return argv


def _run_unit(session: nox.Session, options: argparse.Namespace, variant: str) -> None:
    """Run Go's tests on a variant, and let ``latest`` point to what was recorded."""
    name = f"unit-{variant}"
    folders.forget_latest(options.evidence, name)
    run = folders.new_run(options.evidence, name)
    argv = [f"--variant={variant}", f"--output={run / 'unit.json'}"]
    argv += forwarded(options, [*SOURCE_OPTIONS, *UNIT_OPTIONS])
    try:
        steps.run(session, "-m", "wasm", "unit", *argv)
    finally:
        if (run / "unit.json").exists():
            folders.point_latest(options.evidence, name, run)
        else:
            shutil.rmtree(run, ignore_errors=True)


def _run_mutant(
    session: nox.Session, options: argparse.Namespace, folder: Path, mutant: dict[str, str]
) -> None:
    """Run the matrix on a mutant, where cells have to fail; once each, unless told otherwise.

    And on the fix itself, where none may: a matrix that fails on everything catches nothing.
    """
    session.log(f"the matrix on {mutant['id']}: {mutant['says']}")
    argv = [f"--fixed-patch={folder / mutant['patch']}", "--variant=fixed", "--repeat=1"]
    argv += [f"--run-dir={folder / 'runs' / mutant['id']}", "--tb=no"]
    argv += forwarded(options, [*SOURCE_OPTIONS, *TESTBED_OPTIONS, *MATRIX_OPTIONS])
    steps.attempt(session, *_PYTEST, *argv, until_ctrl_c=options.keep)


def _run_matrix(session: nox.Session, options: argparse.Namespace, variant: str) -> None:
    """Run the matrix on a variant, and let ``latest`` point to what was recorded."""
    folders.forget_latest(options.evidence, variant)
    run = folders.new_run(options.evidence, variant)
    # What a person would type to have it again; the run records it.
    asked = ["nox", "-s", f"runtime-{variant}", *(["--"] if session.posargs else [])]
    session.env["GATEWAY_PROOF_SESSION"] = shlex.join([*asked, *session.posargs])
    junit = str(run / "junit.xml")
    if "$" in junit:
        # pytest puts variables in this path, so a dollar sign in it is one, too.
        junit = junit.replace("$", f"${{{_DOLLAR}}}")
        session.env[_DOLLAR] = "$"
    argv = [f"--variant={variant}", f"--run-dir={run}", f"--junit-xml={junit}"]
    argv += forwarded(options, [*SOURCE_OPTIONS, *TESTBED_OPTIONS, *MATRIX_OPTIONS])
    try:
        steps.run(session, *_PYTEST, *argv, until_ctrl_c=options.keep)
    finally:
        recorded = (run / "run.json").exists()
        if recorded:
            folders.point_latest(options.evidence, variant, run)
            _MADE_HERE[variant] = run
        else:
            shutil.rmtree(run, ignore_errors=True)
    if not recorded:
        raise steps.StepFailed(
            f"the matrix on the {variant} variant ended without a record of it; expected run.json; "
            "see the lines above, and run it again"
        )
