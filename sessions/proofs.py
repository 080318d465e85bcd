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
from sessions.evidence.record import folders
from sessions.matrix.options import MATRIX_OPTIONS
from sessions.options import forwarded
from wasm.options import SOURCE_OPTIONS, UNIT_OPTIONS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

# What this command has begun and made, by variant: another's run may be the latest by now, and an
# older one is none of this command's when the session that was to make it failed.
_BEGUN: set[str] = set()
_MADE_HERE: dict[str, Path] = {}
_BUNDLE = "bundle"
# Why `unit` of this command is no success; nox goes on with the next session.
_RED: list[str] = []
_DOLLAR = "GATEWAY_PROOF_DOLLAR"
# Our own warnings are errors (pyproject.toml); a library's is none to a user.
_PYTEST = (
    *("-m", "pytest", "tests/runtime", "--quiet", "--capture=no", "--tb=short", "-r", "fE"),
    *("-W", "ignore"),
)


@nox.session
def unit(session: nox.Session) -> None:
    """Run go vet, go test ./provider and go test ./... on the fixed variant, or on both."""
    _RED[:] = ["it did not come to its end"]
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
        _RED[:] = [str(failure) for failure in failures]
        if failures:
            raise failures[-1]


@nox.session(name="runtime-baseline")
def runtime_baseline(session: nox.Session) -> None:
    """Run the matrix on the baseline: succeeds when it fails exactly as declared."""
    _BEGUN.add("baseline")
    options = prepare(session, "runtime-baseline")
    with steps.ending_in_a_sentence(session):
        with _comparison_at_the_end(session, options, wanted="fixed" in _MADE_HERE):
            _run_matrix(session, options, "baseline")
        _refuse_red()


@nox.session(name="runtime-fixed")
def runtime_fixed(session: nox.Session) -> None:
    """Run the matrix on the fixed module: succeeds when every cell holds; then compare."""
    _BEGUN.add("fixed")
    options = prepare(session, "runtime-fixed")
    with steps.ending_in_a_sentence(session):
        stale = _is_to_come(session, "runtime-baseline")
        if stale:
            session.log("the comparison follows runtime-baseline, which this command runs later")
        with _comparison_at_the_end(session, options, wanted=not stale):
            _run_matrix(session, options, "fixed")
        _refuse_red()


@nox.session
def report(session: nox.Session) -> None:
    """Compare the latest baseline and fixed run: succeeds when the fix is proven."""
    options = prepare(session, "report")
    with steps.ending_in_a_sentence(session):
        _refuse_stale()
        _report(session, options, _runs(options))
        _refuse_red()


@nox.session
def verify(session: nox.Session) -> None:
    """Check a bundle again from its raw observations, offline: succeeds when all of it holds."""
    options = prepare(session, "verify")
    with steps.ending_in_a_sentence(session):
        path = options.path or _bundle(options)
        argv = ["-m", "sessions.evidence", "verify", str(path)]
        if options.allowed_signers:
            argv.append(f"--allowed-signers={options.allowed_signers}")
        steps.run(session, *argv)
        _refuse_red()


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
        folder = _new_run(session, options, "mutants")
        record = folder / "mutants.json"
        try:
            source = forwarded(options, SOURCE_OPTIONS)
            steps.run(session, "-m", "wasm", "mutants", f"--output={folder}", *source)
            recorded = json.loads(record.read_bytes())
            for mutant in [recorded["fix"], *recorded["mutants"]]:
                if mutant["visible_at_runtime"]:
                    _run_mutant(session, options, folder, mutant)
            steps.run(session, "-m", "sessions.evidence.report.mutants", str(folder))
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
    if decides:
        _refuse_stale()
    elif _BEGUN - {*_MADE_HERE}:
        return
    runs = _runs(options)
    if not all(run.is_dir() for run in runs.values()):
        return
    if "baseline" not in _BEGUN:
        session.warn(f"the baseline is {runs['baseline'].name}, which an earlier command made")
    if decides and {"baseline", "fixed"} <= {*_MADE_HERE}:
        _report(session, options, runs)
    else:
        try:
            _report(session, options, runs)
        except steps.StepFailed as failure:
            session.warn(str(failure))


def _runs(options: argparse.Namespace) -> dict[str, Path]:
    """Return the run of each variant: this command's, else the latest."""
    latest = {
        variant: folders.target(folders.latest(options.evidence, variant))
        for variant in ("baseline", "fixed")
    }
    return {variant: _MADE_HERE.get(variant, run) for variant, run in latest.items()}


def _bundle(options: argparse.Namespace) -> Path:
    """Return the bundle to verify: this command's where it was to make one, else the latest."""
    if _BEGUN and _BUNDLE not in _MADE_HERE:
        raise steps.StepFailed(
            "nothing was verified: this command was to make a bundle and made none; expected a "
            "pair that can be compared; see why, above, or name an older bundle after --"
        )
    return _MADE_HERE.get(_BUNDLE, folders.latest(options.evidence, _BUNDLE))


def _refuse_stale() -> None:
    """Refuse to compare an older run in the place of one that this command was to make."""
    lost = [variant for variant in ("baseline", "fixed") if variant in _BEGUN - {*_MADE_HERE}]
    if lost:
        raise steps.StepFailed(
            f"nothing was compared: runtime-{lost[0]} of this command left no run; expected one of "
            "each variant; see why it failed, above, and run both again"
        )


def _refuse_red() -> None:
    """Let no session end as a success after a ``unit`` of the same command that was none."""
    if _RED:
        raise steps.StepFailed(
            f"what this session looked at holds, but `unit` of the same command failed: {_RED[-1]}"
        )


def _report(session: nox.Session, options: argparse.Namespace, runs: dict[str, Path]) -> None:
    """Compare two runs, and take note of the bundle, whatever it says."""
    argv = ["-m", "sessions.evidence", "report", f"--evidence={options.evidence}"]
    argv += [f"--{variant}={run}" for variant, run in runs.items()]
    if options.sign:
        argv.append(f"--sign={options.sign}")
    link = folders.latest(options.evidence, _BUNDLE)
    before = folders.target(link)
    try:
        steps.run(session, *argv)
    finally:
        if folders.target(link) != before:
            _MADE_HERE[_BUNDLE] = folders.target(link)


def _run_unit(session: nox.Session, options: argparse.Namespace, variant: str) -> None:
    """Run Go's tests on a variant, and let ``latest`` point to what was recorded."""
    name = f"unit-{variant}"
    folders.forget_latest(options.evidence, name)
    run = _new_run(session, options, name)
    argv = [f"--variant={variant}", f"--output={run / 'unit.json'}"]
    argv += forwarded(options, [*SOURCE_OPTIONS, *UNIT_OPTIONS])
    try:
        steps.run(session, "-m", "wasm", "unit", *argv)
    finally:
        if (run / "unit.json").exists():
            folders.seal(run)
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
    """Run the matrix on a variant, and let ``latest`` point to what was recorded.

    A run that failed before there was a testbed leaves ``latest`` as it is.
    """
    folders.refuse_latest_in_the_way(options.evidence, variant)
    run = _new_run(session, options, variant)
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
            _MADE_HERE[variant] = run
            if folders.opened(run):
                folders.point_latest(options.evidence, variant, run)
        else:
            shutil.rmtree(run, ignore_errors=True)
    if not recorded:
        raise steps.StepFailed(
            f"the matrix on the {variant} variant ended without a record of it; expected run.json; "
            "see the lines above, and run it again"
        )


def _new_run(session: nox.Session, options: argparse.Namespace, name: str) -> Path:
    """Make a run's folder, naming first what killed runs have left half-written."""
    for left in folders.unfinished(options.evidence):
        session.warn(
            f"{left} is half-written, since its process was killed: it is no evidence, and "
            "`nox -s clean` removes it"
        )
    return folders.new_run(options.evidence, name)
