"""A baseline and a fixed run compared. Pure: from two runs' records to one verdict with reasons."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from containers.docker.images import is_pinned
from sessions.evidence.pair import unit_results
from sessions.evidence.pair.comparable import refuse_unlike
from sessions.evidence.pair.rejudge import refuse_unfounded
from sessions.evidence.record.records import (
    CellPair,
    Comparison,
    Counts,
    GatewaySummary,
    ModuleSummary,
    PairVerdict,
    Run,
    RunSummary,
    Side,
    first_keys,
)
from sessions.evidence.record.store import as_json
from sessions.matrix import oracle
from sessions.matrix.cells import plan
from sessions.matrix.verdict import Verdict
from wasm.records import UNPUBLISHED, Variant, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from containers.exchange import Attempt, Response
    from containers.records import Cleanup, TestbedFacts
    from sessions.evidence.record.records import UnitSummary
    from sessions.matrix.records import Result

_NAMED_AT_MOST = 3
_SAME_VALUE = frozenset({"host", "content-type", "content-encoding"})
# docs/evidence.md, 11: with fewer, a random first key may never have been the other one.
ENOUGH_REPEATS = 3


def compare(  # noqa: PLR0913 - two runs, and what lies beside them
    baseline: Run,
    baseline_results: Sequence[Result],
    fixed: Run,
    fixed_results: Sequence[Result],
    unit: Mapping[Variant, UnitSummary] | None = None,
    *,
    cleanup: Mapping[Variant, Cleanup],
) -> Comparison:
    """Compare two runs that differ in nothing but the module.

    Recorded verdicts are not taken on trust: each is reached again from its observations.

    Args:
        baseline: The run without the fix.
        baseline_results: Its cells.
        fixed: The run with it.
        fixed_results: Its cells.
        unit: Go's own tests on each variant's module and tree, where they are at hand.
        cleanup: The proof of each that nothing was left; without it nothing is proven.

    Raises:
        EvidenceError: They differ in something else, one of them never opened its testbed, or a
            result does not follow from what was observed.
    """
    refuse_unlike(baseline, fixed)
    refuse_unfounded(baseline, baseline_results)
    refuse_unfounded(fixed, fixed_results)
    testbed = fixed.testbed
    if testbed is None:  # pragma: no cover - refused above
        raise AssertionError
    results = {Variant.BASELINE: baseline_results, Variant.FIXED: fixed_results}
    limits = tuple(_no_release_evidence(testbed, fixed, results))
    pairs = tuple(_pairs(baseline_results, fixed_results))
    tests = {variant: (unit or {}).get(variant, unit_results.NONE) for variant in Variant}
    verdict, reasons = judge(
        baseline, baseline_results, fixed, fixed_results, unit=tests, cleanup=cleanup
    )
    return Comparison(
        verdict=verdict,
        reasons=reasons,
        release_evidence=not limits,
        no_release_evidence=limits,
        engine=testbed.engine,
        gateway=GatewaySummary.of(testbed.gateway),
        modules={run.variant: _module(run) for run in (baseline, fixed)},
        counts={
            Variant.BASELINE: Counts.of(baseline_results),
            Variant.FIXED: Counts.of(fixed_results),
        },
        repeats=fixed.repeats,
        first_keys={
            Variant.BASELINE: first_keys(baseline_results),
            Variant.FIXED: first_keys(fixed_results),
        },
        inputs_sha256=fixed.inputs_sha256,
        cells=pairs,
        unit=tests,
        runs={
            run.variant: RunSummary(id=run.id, sha256=sha256_of(as_json(run)))
            for run in (baseline, fixed)
        },
    )


def judge(  # noqa: PLR0913 - likewise
    baseline: Run,
    baseline_results: Sequence[Result],
    fixed: Run,
    fixed_results: Sequence[Result],
    *,
    unit: Mapping[Variant, UnitSummary],
    cleanup: Mapping[Variant, Cleanup],
) -> tuple[PairVerdict, tuple[str, ...]]:
    """Return the verdict on a pair, and why it is not proven (or what proves it), in sentences.

    A cell that contradicts the claim refutes it, whatever else could not be observed; without a
    contradiction, a cell or a run without a valid observation leaves it inconclusive; and so do
    repeats that disagree, headers that the fix has changed where no check has them, a run of which
    it is not proved that nothing was left, and a matrix in which nothing had to fail, since then
    nothing was reproduced. Go's own tests count where they were run on the very modules: one that
    the fix breaks refutes it, and any other failure leaves it inconclusive.
    """
    against: list[str] = []
    unclear: list[str] = []
    for run, results in ((baseline, baseline_results), (fixed, fixed_results)):
        against += _contradictions(run, results)
        unclear += _disagreements(run, results)
        unclear += _gaps(run, results)
        unclear += _left_behind(run.variant, cleanup[run.variant])
    unclear += _other_headers(baseline_results, fixed_results)
    against += unit_results.contradictions(unit)
    unclear += unit_results.gaps(unit)
    if baseline.module.sha256 == fixed.module.sha256:
        against.append(f"both runs are of one module, {fixed.module.sha256}: nothing was fixed")
    reproduced = [r for r in baseline_results if r.must_fail]
    if not reproduced:
        unclear.append("no cell had to fail on the baseline, so nothing was reproduced")
    if against:
        return PairVerdict.REFUTED, tuple(against + unclear)
    if unclear:
        return PairVerdict.INCONCLUSIVE, tuple(unclear)
    proof = (
        f"the baseline failed in {len(reproduced)} of {len(baseline_results)} cells, in each for "
        f"exactly the declared checks, and held in all others; the fixed module held in all "
        f"{len(fixed_results)}"
    )
    return PairVerdict.PROVEN, (proof,)


def _no_release_evidence(
    testbed: TestbedFacts, run: Run, results: Mapping[Variant, Sequence[Result]]
) -> Iterator[str]:
    """Say why a pair is no release evidence for Higress' gateway."""
    gateway = testbed.gateway
    pinned = is_pinned(gateway.kind, gateway.digest, testbed.adapter)
    if not (gateway.release_evidence and pinned):
        yield "the gateway was not Higress' pinned image, run unmodified"
    if run.repeats < ENOUGH_REPEATS:
        times = "once" if run.repeats == 1 else f"{run.repeats} times"
        yield f"each cell was run {times}, and release evidence needs {ENOUGH_REPEATS} times"
        return
    for variant, those in results.items():
        seen = Counter((r.cell.case, r.cell.mode) for r in those if r.checks)
        few = [
            (f"{each.case}/{each.mode}", seen[each.case, each.mode])
            for each in plan(run.cases, 1)
            if seen[each.case, each.mode] < ENOUGH_REPEATS
        ]
        if few:
            more = f" and {len(few) - 1} more likewise" if len(few) > 1 else ""
            yield (
                f"{variant}: of {few[0][0]}{more} there are {few[0][1]} valid observations, and "
                f"release evidence needs {ENOUGH_REPEATS}"
            )


def _left_behind(variant: Variant, proof: Cleanup) -> Iterator[str]:
    """Say what of a testbed is not proved to be gone."""
    if not proof.complete:
        left = f"still there: {', '.join(proof.leftovers)}" if proof.leftovers else "nobody looked"
        yield f"{variant}: it is not proved that all of its testbed is gone ({left})"


def _disagreements(run: Run, results: Sequence[Result]) -> Iterator[str]:
    """Name the cells whose repeats do not show the same, whatever each of them shows."""
    shown: dict[str, Counter[str]] = {}
    for result in results:
        failed = ", ".join(result.failed_checks)
        outcome = f"failed {failed}" if failed else "passed"
        if result.checks:
            shown.setdefault(f"{result.cell.case}/{result.cell.mode}", Counter())[outcome] += 1
    for name, outcomes in shown.items():
        if len(outcomes) > 1:
            total = outcomes.total()
            counted = "; ".join(f"{number} of {total} {what}" for what, number in outcomes.items())
            yield f"{run.variant}: the repeats of {name} disagree: {counted}"


def _other_headers(baseline: Sequence[Result], fixed: Sequence[Result]) -> Iterator[str]:
    """Say which headers the fix has changed of a message that held on both variants.

    No check has those of a first attempt and of an answer. Only of some is the value held against
    the other's: a date or a nonce may differ each time.
    """
    others = {result.cell.id: result for result in fixed}
    found: dict[str, list[str]] = {}
    for result in baseline:
        other = others.get(result.cell.id)
        mine, its = _held(result), _held(other) if other else {}
        for what in [each for each in mine if each in its]:
            gone, new = mine[what] - its[what], its[what] - mine[what]
            if gone or new:
                said = f"{_named(gone)} on the baseline, {_named(new)} on the fixed module"
                found.setdefault(f"{what} has other headers: {said}", []).append(result.cell.id)
    for said, cells in found.items():
        more = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
        yield f"in {cells[0]}{more}, {said}; expected the same of both"


def _held(result: Result) -> dict[str, Counter[str]]:
    """Return the headers of what held in a cell, by what it is."""
    held: dict[str, Attempt | Response | None] = {}
    if result.attempts and not any(name.startswith("first_") for name in result.failed_checks):
        held["the first attempt"] = result.attempts[0]
    if result.verdict is Verdict.PASS:
        held["the answer"] = result.response
    return {
        what: Counter(
            f"{name}: {value}" if name in _SAME_VALUE else name
            for name, value in oracle.of_provider(seen)
        )
        for what, seen in held.items()
        if seen is not None and result.checks
    }


def _named(headers: Counter[str]) -> str:
    return ", ".join(headers.elements()) or "none of these"


def _gaps(run: Run, results: Sequence[Result]) -> Iterator[str]:
    """Say where a run has no valid observation."""
    silent = [result for result in results if result.verdict is Verdict.INCONCLUSIVE]
    if silent:
        yield (
            f"{run.variant}: no valid observation in {len(silent)} of {len(results)} cells, first "
            f"{silent[0].cell.id}: {silent[0].reason}"
        )
    if run.failure:
        yield f"{run.variant}: the run is not valid: {run.failure}"
    recorded = {result.cell.id for result in results}
    planned = [cell.id for cell in plan(run.cases, run.repeats)]
    missing = [cell for cell in planned if cell not in recorded]
    if missing:
        yield (
            f"{run.variant}: {len(missing)} of {len(planned)} cells were not recorded, first "
            f"{missing[0]}"
        )


def _contradictions(run: Run, results: Sequence[Result]) -> Iterator[str]:
    """Name the cells that contradict the claim, those with the same finding together."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        if not result.as_declared and result.verdict is not Verdict.INCONCLUSIVE:
            groups.setdefault(result.finding, []).append(result)
    for finding, group in groups.items():
        names = ", ".join(result.cell.id for result in group[:_NAMED_AT_MOST])
        more = f" and {len(group) - _NAMED_AT_MOST} more" if len(group) > _NAMED_AT_MOST else ""
        yield f"{run.variant}: {names}{more}: {finding}"


def _pairs(baseline: Sequence[Result], fixed: Sequence[Result]) -> Iterator[CellPair]:
    others = {result.cell.id: result for result in fixed}
    for result in baseline:
        other = others.get(result.cell.id)
        if other is not None:
            yield CellPair(
                case=result.cell.case,
                mode=result.cell.mode,
                repeat=result.cell.repeat,
                expected=result.expected,
                must_fail=result.must_fail,
                baseline=_side(result),
                fixed=_side(other),
            )


def _side(result: Result) -> Side:
    return Side(
        verdict=result.verdict,
        failed_checks=result.failed_checks,
        first_key=result.first_key,
        reason=result.reason,
    )


def _module(run: Run) -> ModuleSummary:
    source = run.module.source
    parts = [f"{source.plugin} of {source.repository} at {source.commit}"]
    if source.uncommitted:
        parts.append(f"uncommitted changes {source.uncommitted.sha256[:12]}")
    if source.unpublished:
        parts.append(f"a commit that {UNPUBLISHED}")
    fix = source.fix
    if fix:
        parts.append(f"{fix.origin} ({fix.patch.sha256[:12]})")
        parts += [f"not part of it: {', '.join(fix.left_out)}"] if fix.left_out else []
    return ModuleSummary(
        sha256=run.module.sha256,
        source=", ".join(parts),
        fix=fix.summary if fix else "",
        go=f"{source.go.version}: {source.go.because}" if source.go else "",
    )
