"""Go's own tests on a run's module and tree, as a bundle takes them in (docs/evidence.md, 13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sessions.evidence.record import folders, sealing
from sessions.evidence.record.records import GO_TESTS, SuiteSummary, UnitState, UnitSummary
from sessions.matrix import credentials
from wasm.records import Variant, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from sessions.evidence.record.records import Run
    from wasm.gotest.unit import UnitRun

RECORD = "unit.json"
_NAMED_AT_MOST = 3
_MISSING = {
    UnitState.NOT_RUN: "no results of Go's own tests for this very module were at hand",
    UnitState.OTHER_TREE: (
        "the latest results of Go's own tests are of another commit or of other files than this run"
    ),
    UnitState.OTHER_GO: (
        "the latest results of Go's own tests were made with another Go, or other settings of it, "
        "than this run"
    ),
    UnitState.OTHER_BASELINE: (
        "the latest results of Go's own tests were held against another baseline than this run's"
    ),
}
_MADE_BY = "`nox -s unit` on the variant makes them, `nox -s report` takes them in"


def missing(state: UnitState) -> UnitSummary:
    """Return the summary of results that a bundle does not hold."""
    return UnitSummary(state=state, missing=f"{_MISSING[state]}; {_MADE_BY}")


NONE = missing(UnitState.NOT_RUN)


def name(variant: Variant) -> str:
    """Return where a bundle has the results of a variant."""
    return f"unit/{variant}.json"


def latest(evidence: Path, run: Run) -> bytes | UnitState:
    """Return the latest results, as a bundle holds them, or why they are none of a run's.

    Raises:
        EvidenceError: They are not as they were sealed.
    """
    link = folders.latest(evidence, f"unit-{run.variant}")
    if not (link / folders.SUMS).is_file():
        return UnitState.NOT_RUN
    sealing.refuse_unsealed(folders.target(link), "run `nox -s unit` again")
    try:
        # The lines of a failing test may show what looks like a credential.
        content = credentials.masked((link / RECORD).read_text("utf-8")).encode()
        return unlike(read(content), run) or content
    except (OSError, ValueError):
        return UnitState.NOT_RUN


def unlike(unit: UnitRun, run: Run) -> UnitState | None:
    """Return in what results differ from a run that they are to belong to; None for nothing.

    They belong to the commit and to every file that the tests saw (test files, testdata, go.mod),
    of which the module's own bytes tell nothing; and to the baseline that they were held against.
    """
    module, source = run.module, run.module.source
    if unit.variant != run.variant:
        return UnitState.NOT_RUN
    if (unit.commit, unit.files_sha256) != (source.commit, source.files_sha256):
        return UnitState.OTHER_TREE
    if unit.go_version != module.go_version or not (
        unit.environment.items() <= module.environment.items()
    ):
        return UnitState.OTHER_GO
    if unit.module_sha256 != module.sha256:
        return UnitState.NOT_RUN
    baseline = source.fix.baseline_sha256 if source.fix else source.files_sha256
    return None if unit.baseline_files_sha256 == baseline else UnitState.OTHER_BASELINE


def read(content: bytes) -> UnitRun:
    """Read the results of ``nox -s unit``.

    Raises:
        ValueError: They are not what it writes.
    """
    # It brings all that runs Go along, which no other evidence needs.
    from wasm.gotest.unit import UnitRun  # noqa: PLC0415

    try:
        return msgspec.json.decode(content, type=UnitRun)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def summary(variant: Variant, content: bytes | UnitState) -> UnitSummary:
    """Return what a comparison says of a variant's results.

    Raises:
        ValueError: They are not what ``nox -s unit`` writes.
    """
    if isinstance(content, UnitState):
        return missing(content)
    unit = read(content)
    failed = not unit.suites or unit.vet or any(suite.problem for suite in unit.suites)
    return UnitSummary(
        state=UnitState.FAILED if failed else UnitState.PASSED,
        file=name(variant),
        sha256=sha256_of(content),
        new_in_vet=len(unit.vet),
        failed_tests=tuple(dict.fromkeys(test for suite in unit.suites for test in suite.failed)),
        timed_out=any(suite.timed_out for suite in unit.suites),
        suites=tuple(
            SuiteSummary(
                command=" ".join(suite.command),
                passed=suite.passed,
                failed=len(suite.failed),
                skipped=len(suite.skipped),
                skipped_in_wasm=len(suite.skipped_in_wasm),
                problem=suite.problem,
            )
            for suite in unit.suites
        ),
    )


def contradictions(unit: Mapping[Variant, UnitSummary]) -> Iterator[str]:
    """Name the tests that the fixed module fails and the baseline does not.

    What fails on the baseline alone is what a regression test is for. A command that Go ended for
    the time it took contradicts nothing; nor does a test of which it is not known whether it fails
    on the baseline, too: then the fix may be right.
    """
    baseline, fixed = unit[Variant.BASELINE], unit[Variant.FIXED]
    new = [test for test in fixed.failed_tests if test not in baseline.failed_tests]
    if new and not fixed.timed_out and _ran(baseline):
        yield (
            f"{GO_TESTS} {len(new)} failed on the fixed module, which do not fail on the baseline: "
            f"{_some(new)}"
        )


def _ran(unit: UnitSummary) -> bool:
    """Whether it is known which tests fail: they compiled, ran, and were not cut short."""
    known = all(suite.failed or not suite.problem for suite in unit.suites)
    return bool(unit.suites) and known and not unit.timed_out


def gaps(unit: Mapping[Variant, UnitSummary]) -> Iterator[str]:
    """Say why results of the fixed module are no success, though no test contradicts the claim."""
    fixed = unit[Variant.FIXED]
    if fixed.state is not UnitState.FAILED or [*contradictions(unit)]:
        return
    if fixed.failed_tests:
        how = ", and on the baseline"
        if fixed.timed_out:
            how = " before Go ended them for the time they took"
        elif not _ran(unit[Variant.BASELINE]):
            how = " (on the baseline they were not run: `nox -s unit` does so with --variant both)"
        yield (
            f"{GO_TESTS} {len(fixed.failed_tests)} failed on the fixed module{how}: "
            f"{_some(fixed.failed_tests)}"
        )
    elif fixed.new_in_vet:
        yield (
            f"{GO_TESTS} go vet found {fixed.new_in_vet} things on the fixed module that the "
            "baseline does not have"
        )
    else:
        problem = next((suite.problem for suite in fixed.suites if suite.problem), "none was run")
        yield f"{GO_TESTS} no result on the fixed module: {problem}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_AT_MOST
    return ", ".join(names[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
