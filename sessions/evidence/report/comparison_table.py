"""A comparison's rows: a case in a mode, baseline beside fixed, equal repeats together. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from sessions.evidence.report import sequence_diagram
from sessions.matrix import cells
from sessions.matrix.checks import in_order
from sessions.matrix.verdict import Verdict
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sessions.evidence.record.records import Run
    from sessions.matrix.case import Case, Mode
    from sessions.matrix.checks import CheckName
    from sessions.matrix.records import Result

NOT_RECORDED = "not recorded"
_OF_EACH = 5
SIGNS = {
    Verdict.PASS: "✓",
    Verdict.MISMATCH: "✗",
    Verdict.INCONCLUSIVE: "?",
    NOT_RECORDED: "–",  # noqa: RUF001 - an en dash, for nothing there
}


class Outcome(NamedTuple):
    """What a cell showed, and whether its variant had to show exactly that."""

    verdict: str
    as_declared: bool

    @property
    def sign(self) -> str:
        """Its sign, for those who do not see colours."""
        return SIGNS[self.verdict]

    @property
    def words(self) -> str:
        """Its verdict in words."""
        if self.verdict == Verdict.MISMATCH:
            return f"{self.verdict}, {'as declared' if self.as_declared else 'not as declared'}"
        if self.verdict == Verdict.PASS and not self.as_declared:
            return "pass, though it had to fail"
        return self.verdict


class Alike(NamedTuple):
    """Repeats that look the same but for keys and times; the first stands for all."""

    result: Result
    repeats: tuple[int, ...]


class Lane(NamedTuple):
    """What one variant showed in a row.

    Attributes:
        outcomes: One a repeat, in order.
        alike: What was seen, those not as declared first.
        first_keys: Letter of a key -> how often it came first.
        rotated: In how many repeats the second attempt used another key than the first.
        retried: In how many there was a second attempt.
    """

    variant: Variant
    outcomes: tuple[Outcome, ...]
    alike: tuple[Alike, ...]
    first_keys: dict[str, int]
    rotated: int
    retried: int

    @property
    def counted(self) -> tuple[tuple[Outcome, int], ...]:
        """Each outcome with how often it was."""
        return tuple(Counter(self.outcomes).items())

    @property
    def as_declared(self) -> bool:
        """Whether every repeat showed exactly what it had to."""
        return all(outcome.as_declared for outcome in self.outcomes)

    @property
    def failed(self) -> tuple[CheckName, ...]:
        """Every check that failed in some repeat, in the order in which they are made."""
        return in_order(name for each in self.alike for name in each.result.failed_checks)


class Row(NamedTuple):
    """A case in a mode."""

    number: int
    case: Case
    mode: Mode
    must_fail: tuple[CheckName, ...]
    lanes: tuple[Lane, Lane]

    @property
    def as_declared(self) -> bool:
        """Whether both variants showed exactly what they had to."""
        return all(lane.as_declared for lane in self.lanes)

    @property
    def state(self) -> str:
        """Whether it is as declared, in words; without a contradiction it is only unclear."""
        if self.as_declared:
            return "as declared"
        wrong = [o for lane in self.lanes for o in lane.outcomes if not o.as_declared]
        seen = any(outcome.verdict in (Verdict.PASS, Verdict.MISMATCH) for outcome in wrong)
        return "not as declared" if seen else "no valid observation"

    @property
    def likeness(self) -> tuple[object, ...]:
        """What rows have in common that look the same in a table."""
        return (self.mode, self.must_fail, *(lane.counted for lane in self.lanes))


def of(baseline: Run, results: Mapping[Variant, Sequence[Result]]) -> tuple[Row, ...]:
    """Return all rows, those of the cases in order; a cell that was not recorded is there too."""
    recorded: dict[tuple[Variant, str, str, int], Result] = {
        (variant, result.cell.case, result.cell.mode, result.cell.repeat): result
        for variant, those in results.items()
        for result in those
    }
    planned = dict.fromkeys((cell.case, cell.mode) for cell in cells.plan(baseline.cases, 1))
    by_name = {case.name: case for case in baseline.cases}
    rows = []
    for number, (name, mode) in enumerate(planned, 1):
        case = by_name[name]
        lanes = [
            _lane(
                case,
                variant,
                {
                    repeat: recorded.get((variant, name, mode, repeat))
                    for repeat in range(1, baseline.repeats + 1)
                },
            )
            for variant in Variant
        ]
        must_fail = in_order(case.expected_failures(Variant.BASELINE, mode))
        rows.append(Row(number, case, mode, must_fail, (lanes[0], lanes[1])))
    return tuple(rows)


def _lane(case: Case, variant: Variant, repeats: Mapping[int, Result | None]) -> Lane:
    there = [result for result in repeats.values() if result is not None]
    groups: dict[object, list[Result]] = {}
    for result in there:
        groups.setdefault(_looks(result), []).append(result)
    ordered = sorted(groups.values(), key=lambda group: group[0].as_declared)
    return Lane(
        variant=variant,
        outcomes=tuple(
            Outcome(result.verdict, result.as_declared)
            if result is not None
            else Outcome(NOT_RECORDED, as_declared=False)
            for result in repeats.values()
        ),
        alike=tuple(Alike(group[0], tuple(r.cell.repeat for r in group)) for group in ordered),
        first_keys=dict(
            sorted(
                Counter(
                    sequence_diagram.letter(case, r.first_key) for r in there if r.attempts
                ).items()
            )
        ),
        rotated=sum(_rotated(result) for result in there),
        retried=sum(len(result.attempts) > 1 for result in there),
    )


def _rotated(result: Result) -> bool:
    keys = [attempt.key for attempt in result.attempts[:2]]
    return len(keys) > 1 and None not in keys and keys[0] != keys[1]


def _looks(result: Result) -> object:
    """Return what two repeats have in common that tell the same story."""
    response = result.response
    return (
        result.verdict,
        result.failed_checks,
        result.reason,
        response and (response.status, response.body_sha256),
        tuple(
            (a.method, a.target, a.body_sha256, a.answered and a.answered.status)
            for a in result.attempts
        ),
    )


class Arrivals(NamedTuple):
    """How many attempts there were, and how many arrived at the mock upstream."""

    attempts: int
    here: int


def arrivals(run: Run, results: Sequence[Result]) -> Arrivals:
    """Count where a run's attempts arrived."""
    places = [attempt.arrived_on for result in results for attempt in result.attempts]
    return Arrivals(len(places), places.count(run.upstream_address))


class Crowd(NamedTuple):
    """Rows that are not shown one by one, since they look like each other."""

    first: Row
    names: tuple[str, ...]


def shown(rows: Iterable[Row], at_most: int) -> tuple[tuple[Row, ...], tuple[Crowd, ...]]:
    """Return the rows to show one by one, and all others in crowds of those alike.

    Where there are too many, what contradicts the claim comes first, and of those that show the
    same only the first few are shown.
    """
    rows = tuple(rows)
    if len(rows) <= at_most:
        return rows, ()
    seen: Counter[object] = Counter()
    chosen: list[Row] = []
    for row in sorted(rows, key=lambda row: (row.as_declared, not row.must_fail, row.number)):
        seen[row.likeness] += 1
        if len(chosen) < at_most and (not row.as_declared or seen[row.likeness] <= _OF_EACH):
            chosen.append(row)
    numbers = {row.number for row in chosen}
    crowds: dict[object, list[Row]] = {}
    for row in rows:
        if row.number not in numbers:
            crowds.setdefault(row.likeness, []).append(row)
    return tuple(chosen), tuple(
        Crowd(crowd[0], tuple(f"{row.case.name}/{row.mode}" for row in crowd))
        for crowd in crowds.values()
    )
