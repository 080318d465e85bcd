"""Results that do not follow from their own observations are not believed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from sessions.evidence.pair.compare import compare
from sessions.evidence.pair.rejudge import refuse_unfounded
from sessions.matrix.verdict import Verdict
from tests.unit.evidence.runs import GONE, results, run
from tests.unit.matrix.observations import KLING, attempt
from wasm.foundation.errors import EvidenceError
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessions.matrix.records import Result

B, F = Variant.BASELINE, Variant.FIXED
VIDEO = "kling-text-to-video/retry/1"
FOUR = "retry_path, retry_body, client_status, client_body"


def refusal(found: list[Result], variant: Variant = F) -> str:
    with pytest.raises(EvidenceError) as caught:
        refuse_unfounded(run(variant), found)
    return str(caught.value)


def said(found: str, expected: str, variant: Variant = F) -> str:
    return (
        f"the {variant} run 20260101T000000Z-{variant}-000000 {found}; expected {expected}; its "
        "files are not what the session wrote, so run it again"
    )


def first(variant: Variant, *, shows_defect: bool | None = None, **changes: Any) -> list[Result]:
    found = results(variant, shows_defect=shows_defect)
    assert found[0].cell.id == VIDEO
    return [msgspec.structs.replace(found[0], **changes), *found[1:]]


@pytest.mark.parametrize("variant", Variant)
def test_what_follows_from_its_observations_is_taken(variant: Variant) -> None:
    refuse_unfounded(run(variant), results(variant))
    refuse_unfounded(run(variant), results(variant)[:3])
    refuse_unfounded(run(variant), [])


def all_hold(result: Result) -> Result:
    checks = [msgspec.structs.replace(check, holds=True) for check in result.checks]
    return msgspec.structs.replace(
        result, checks=tuple(checks), verdict=Verdict.PASS, as_declared=True, reason=""
    )


LIES: dict[str, Callable[[Result], Result]] = {
    "as_declared": lambda r: msgspec.structs.replace(r, as_declared=True),
    "every check is said to hold": all_hold,
    "the checks are gone": lambda r: msgspec.structs.replace(
        all_hold(r), checks=(), as_declared=True
    ),
    "the checks are said to have to fail": lambda r: msgspec.structs.replace(
        r, must_fail=r.failed_checks, expected=Verdict.MISMATCH, as_declared=True
    ),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_fixed_cell_that_fails_and_says_that_it_does_not_is_refused(
    lie: Callable[[Result], Result],
) -> None:
    found = results(F, shows_defect=True)
    told = lie(found[0])
    assert refusal([told, *found[1:]]) == said(
        f"records for {VIDEO} what does not follow from its attempts and response: {told.verdict}, "
        f"{told.reason or 'no check failed'}",
        f"mismatch, {FOUR}",
    )


def test_an_attempt_that_was_changed_afterwards_is_seen() -> None:
    changed = first(B, attempts=(attempt(KLING, 1), attempt(KLING, 2)))
    assert refusal(changed, B) == said(
        f"records for {VIDEO} what does not follow from its attempts and response: mismatch, "
        f"{FOUR}",
        "mismatch, client_status, client_body",
        B,
    )


def test_a_cell_that_is_there_twice_is_refused_even_if_the_number_is_right() -> None:
    found = results(F)
    assert refusal([*found[:7], found[0]]) == said(f"records {VIDEO} twice", "each cell once")


def test_a_cell_that_was_not_planned_is_refused() -> None:
    cell = msgspec.structs.replace(results(F)[0].cell, repeat=3)
    assert refusal(first(F, cell=cell)) == said(
        "records kling-text-to-video/retry/3", "only cells that it planned"
    )


def test_a_cell_of_the_other_variant_is_refused() -> None:
    assert refusal(results(B)) == said(f"records {VIDEO} of baseline", "its own variant")


def test_another_request_than_the_case_s_is_refused() -> None:
    request = msgspec.structs.replace(results(F)[0].request, target="/v1/other")
    assert refusal(first(F, request=request)) == said(
        f"sent something else in {VIDEO} than its case says", "the case's request"
    )


def test_a_comparison_does_not_believe_either_side() -> None:
    with pytest.raises(EvidenceError, match="what does not follow"):
        compare(
            run(B), results(B), run(F), first(F, shows_defect=True, as_declared=True), cleanup=GONE
        )
    with pytest.raises(EvidenceError, match="what does not follow"):
        compare(
            run(B), first(B, shows_defect=False, as_declared=True), run(F), results(F), cleanup=GONE
        )
