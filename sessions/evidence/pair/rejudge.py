"""Whether a run's results follow from its own observations: judged again by the same oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.matrix import cells
from wasm.foundation.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessions.evidence.record.records import Run
    from sessions.matrix.records import Result


def refuse_unfounded(run: Run, results: Sequence[Result]) -> None:
    """Refuse results whose verdict was not reached from what was recorded. Pure.

    A cell that is missing is not refused here: an interrupted run has fewer.

    Raises:
        EvidenceError: A cell was not planned, is there twice, belongs to the other variant, or
            says something else than what its attempts and response lead to.
    """
    for found, expected in unfounded(run, results):
        raise EvidenceError(
            f"the {run.variant} run {run.id} {found}; expected {expected}; its files are not what "
            "the session wrote, so run it again"
        )


def unfounded(run: Run, results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    """Give what each unfounded result says, and what was expected of it. Pure."""
    cases = {case.name: case for case in run.cases}
    planned = {cell.id for cell in cells.plan(run.cases, run.repeats)}
    recorded: set[str] = set()
    for result in results:
        cell = result.cell
        if cell.id not in planned:
            yield f"records {cell.id}", "only cells that it planned"
            continue
        if cell.id in recorded:
            yield f"records {cell.id} twice", "each cell once"
        recorded.add(cell.id)
        if result.variant != run.variant:
            yield f"records {cell.id} of {result.variant}", "its own variant"
        case = cases[cell.case]
        for name, seen in result.exchanges.items():
            if seen.request != cells.request(case, cell, alone=name == cell.id_alone):
                yield f"sent something else in {name} than its case says", "the case's request"
        again = cells.conclude(
            case, cell, run.variant, result.observation, run.upstream_address, result.alone
        )
        if again != result:
            found = (
                f"records for {cell.id} what does not follow from its attempts and response: "
                f"{result.verdict}, {result.reason or 'no check failed'}"
            )
            yield found, f"{again.verdict}, {again.reason or 'no check failed'}"
