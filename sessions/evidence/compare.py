"""A baseline and a fixed run compared. Pure: from two runs' records to one verdict with reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.evidence.records import (
    CellPair,
    Comparison,
    Counts,
    GatewaySummary,
    ModuleSummary,
    PairVerdict,
    Run,
    Side,
)
from sessions.matrix.verdict import Verdict
from wasm.errors import EvidenceError
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessions.matrix.cells import Result
    from wasm.records import Source

_NAMED_AT_MOST = 3


def compare(
    baseline: Run, baseline_results: Sequence[Result], fixed: Run, fixed_results: Sequence[Result]
) -> Comparison:
    """Compare two runs that differ in nothing but the module.

    Raises:
        EvidenceError: They differ in something else, or one of them never opened its testbed.
    """
    _refuse_unlike(baseline, fixed)
    testbed = fixed.testbed
    if testbed is None:  # pragma: no cover - refused above
        raise AssertionError
    pairs = tuple(_pairs(baseline_results, fixed_results))
    verdict, reasons = judge(baseline, baseline_results, fixed, fixed_results)
    return Comparison(
        verdict=verdict,
        reasons=reasons,
        release_evidence=testbed.gateway.release_evidence,
        engine=testbed.engine,
        gateway=GatewaySummary.of(testbed.gateway),
        modules={run.variant: _module(run) for run in (baseline, fixed)},
        counts={
            Variant.BASELINE: Counts.of(baseline_results),
            Variant.FIXED: Counts.of(fixed_results),
        },
        cells=pairs,
        runs={run.variant: run.id for run in (baseline, fixed)},
    )


def judge(
    baseline: Run, baseline_results: Sequence[Result], fixed: Run, fixed_results: Sequence[Result]
) -> tuple[PairVerdict, tuple[str, ...]]:
    """Return the verdict on a pair, and why it is not proven (or what proves it), in sentences.

    A cell that contradicts the claim refutes it, whatever else could not be observed; without a
    contradiction, a cell or a run without a valid observation leaves it inconclusive; and so does
    a matrix in which nothing had to fail, since then nothing was reproduced.
    """
    against: list[str] = []
    unclear: list[str] = []
    for run, results in ((baseline, baseline_results), (fixed, fixed_results)):
        wrong = [r for r in results if not r.as_declared and r.verdict is not Verdict.INCONCLUSIVE]
        silent = [r for r in results if r.verdict is Verdict.INCONCLUSIVE]
        against += _grouped(run.variant, wrong)
        if silent:
            unclear.append(
                f"{run.variant}: {len(silent)} of {len(results)} cells have no valid observation, "
                f"first {silent[0].cell.id}: {silent[0].reason}"
            )
        if run.failure:
            unclear.append(f"{run.variant}: the matrix did not run to its end: {run.failure}")
        if len(results) != _planned(run):
            unclear.append(f"{run.variant}: {len(results)} of {_planned(run)} cells were recorded")
    reproduced = [r for r in baseline_results if r.must_fail]
    if not reproduced:
        unclear.append("no cell had to fail on the baseline, so nothing was reproduced")
    if against:
        return PairVerdict.REFUTED, tuple(against + unclear)
    if unclear:
        return PairVerdict.INCONCLUSIVE, tuple(unclear)
    return PairVerdict.PROVEN, (
        f"the baseline failed in {len(reproduced)} of {len(baseline_results)} cells, in each for "
        f"exactly the declared checks, and held in all others; the fixed module held in all "
        f"{len(fixed_results)}",
    )


def _planned(run: Run) -> int:
    return sum(len(case.modes) for case in run.cases) * run.repeats


def _grouped(variant: Variant, wrong: Sequence[Result]) -> Iterator[str]:
    """Name the cells that contradict the claim, those with the same finding together."""
    groups: dict[tuple[frozenset[str], frozenset[str]], list[Result]] = {}
    for result in wrong:
        key = (frozenset(result.must_fail), frozenset(result.failed_checks))
        groups.setdefault(key, []).append(result)
    for results in groups.values():
        names = ", ".join(result.cell.id for result in results[:_NAMED_AT_MOST])
        more = f" and {len(results) - _NAMED_AT_MOST} more" if len(results) > _NAMED_AT_MOST else ""
        yield f"{variant}: {names}{more}: {results[0].finding}"


def _refuse_unlike(baseline: Run, fixed: Run) -> None:
    for run, variant in ((baseline, Variant.BASELINE), (fixed, Variant.FIXED)):
        if run.variant is not variant:
            raise _unlike("variant", f"{run.variant} as the {variant} run", str(variant))
        if run.testbed is None:
            raise EvidenceError(
                f"the {variant} run {run.id} has no testbed to compare: {run.failure}; expected a "
                "run whose gateway came up; mend that and run it again"
            )
    one, other = baseline.testbed, fixed.testbed
    if one is None or other is None:  # pragma: no cover - refused above
        raise AssertionError
    for name, first, second in (
        ("repeats", baseline.repeats, fixed.repeats),
        ("cases", [case.name for case in baseline.cases], [case.name for case in fixed.cases]),
        ("engine", one.engine, other.engine),
        ("gateway", one.gateway, other.gateway),
        ("upstream", one.upstream_sha256, other.upstream_sha256),
        ("inputs", baseline.inputs_sha256, fixed.inputs_sha256),
        ("source", *_origins(baseline.module.source, fixed.module.source)),
    ):
        if first != second:
            raise _unlike(name, str(first), str(second))


def _origins(baseline: Source, fixed: Source) -> tuple[object, object]:
    """Return what of two sources must be the same: all of the baseline, unless two refs were named."""

    def shared(source: Source) -> object:
        place = (source.repository, source.plugin)
        if fixed.fix is None:
            return place
        uncommitted = source.uncommitted.sha256 if source.uncommitted else None
        return (*place, source.commit, uncommitted)

    return shared(baseline), shared(fixed)


def _unlike(name: str, first: str, second: str) -> EvidenceError:
    return EvidenceError(
        f"the two runs cannot be compared: their {name} differ (baseline: {first}; fixed: "
        f"{second}); expected nothing but the module to differ; run both with the same options"
    )


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
    if source.fix:
        parts.append(f"fix {source.fix.origin} ({source.fix.patch.sha256[:12]})")
    return ModuleSummary(sha256=run.module.sha256, source=", ".join(parts))
