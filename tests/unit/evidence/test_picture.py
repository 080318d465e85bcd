"""The picture of a cell: every message in order, and what was wrong at the one that was wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sessions.evidence.report import comparison_table, sequence_diagram
from sessions.matrix.case import Mode
from sessions.matrix.checks import CheckName
from tests.unit.evidence.pairs import in_time, many, proven, refuted
from tests.unit.matrix.observations import KLING, attempt, defective, result, right
from wasm.records import Variant

if TYPE_CHECKING:
    from sessions.matrix.records import Observation

B, F = Variant.BASELINE, Variant.FIXED
PATH = "/v1/videos/text2video?trace=1"


def drawn(
    seen: Observation, mode: Mode = Mode.RETRY, variant: Variant = B
) -> sequence_diagram.Picture:
    return sequence_diagram.of(KLING, result(KLING, mode, variant, seen))


def told(of: sequence_diagram.Picture) -> list[tuple[str, str, str, str, bool]]:
    return [(m.way, m.key, m.text, m.at, m.wrong) for m in of.messages]


def test_a_retry_that_goes_wrong_is_marked_with_what_was_wrong_and_the_rest_is_not() -> None:
    found = drawn(in_time(defective(KLING)))
    assert told(found) == [
        ("request", "", "POST /v1/videos?trace=1", "", False),
        ("attempt", "a", f"POST {PATH}", "+0.0 ms", False),
        ("answer", "", "503", "+0.1 ms", False),
        ("attempt", "b", "POST /v1/videos?trace=1", "+1.2 ms", True),
        ("answer", "", "200", "+1.3 ms", False),
        ("response", "", "503", "2.0 ms in all", True),
    ]
    path, body = found.messages[3].findings
    assert (path.check, path.declared, path.expected, path.actual) == (
        CheckName.RETRY_PATH,
        True,
        PATH,
        "/v1/videos?trace=1",
    )
    assert body.difference is not None
    assert [x.sign + x.before + x.differs for x in body.difference.lines if x.sign in "-+"] == [
        '-  "model_name',
        '+  "model',
    ]
    status = found.messages[-1].findings[0]
    assert (status.expected, status.actual, status.difference) == ("200", "503", None)
    assert found.findings == ()


def test_the_same_on_the_fixed_module_is_not_declared() -> None:
    found = drawn(in_time(defective(KLING)), variant=F)
    assert [finding.declared for finding in found.messages[3].findings] == [False, False]


def test_a_retry_that_never_came_is_drawn_as_missing() -> None:
    seen = right(KLING, Mode.RETRY)
    found = drawn(msgspec.structs.replace(seen, attempts=seen.attempts[:1]))
    missing = next(message for message in found.messages if message.missing)
    assert (missing.way, missing.name, missing.wrong) == ("attempt", "retry", True)
    assert missing.text == f"it never came; expected POST {PATH}"
    assert [f.check for f in found.findings] == [CheckName.ATTEMPT_COUNT]


def test_an_attempt_too_many_is_marked_and_very_many_are_counted() -> None:
    seen = right(KLING, Mode.RETRY)
    extra = tuple(attempt(KLING, order) for order in range(3, 11))
    found = drawn(msgspec.structs.replace(seen, attempts=(*seen.attempts, *extra)))
    wrong = [message.name for message in found.messages if message.wrong]
    assert wrong == [f"attempt {order}, one too many" for order in range(3, 7)]
    assert found.not_drawn == 4


def test_without_a_valid_observation_the_reason_stands_beside_what_there_was() -> None:
    seen = msgspec.structs.replace(right(KLING, Mode.RETRY), response=None, fault="it is gone")
    found = drawn(seen)
    assert found.fault == "it is gone"
    assert (found.messages[-1].text, found.messages[-1].missing) == ("none", True)


def test_a_key_that_is_not_declared_is_never_repeated() -> None:
    seen = right(KLING, Mode.RETRY)
    other = attempt(KLING, 2, key="dummy-key-z")
    changed = msgspec.structs.replace(seen, attempts=(seen.attempts[0], other))
    found = drawn(changed)
    assert found.messages[3].key == sequence_diagram.NOT_DECLARED
    assert sequence_diagram.headers(KLING, other)[-1] == (
        "authorization",
        "(not declared, 18 characters)",
    )
    assert sequence_diagram.headers(KLING, seen.attempts[0])[-1] == (
        "authorization",
        "Bearer dummy-key-a",
    )
    every = result(KLING, Mode.RETRY, B, changed).checks
    assert "dummy-key-z" not in str([sequence_diagram.words(KLING, check) for check in every])
    assert "dummy-key-z" not in str(found.findings + found.messages[3].findings)


def test_equal_repeats_are_one_and_different_ones_are_apart() -> None:
    pair = refuted()
    row = comparison_table.of(pair.baseline, {B: pair.baseline_results, F: pair.fixed_results})[0]
    assert [alike.repeats for alike in row.lanes[0].alike] == [(1, 2)]
    assert [alike.repeats for alike in row.lanes[1].alike] == [(1,), (2,)]
    assert (row.as_declared, row.state) == (False, "not as declared")
    assert (row.lanes[1].rotated, row.lanes[1].retried) == (1, 1)


def test_what_was_planned_and_is_not_there_is_a_cell_too() -> None:
    pair = proven()
    row = comparison_table.of(
        pair.baseline, {B: pair.baseline_results, F: pair.fixed_results[:-1]}
    )[-1]
    assert [outcome.sign for outcome in row.lanes[1].outcomes] == ["✓", "–"]  # noqa: RUF001 - ours
    assert row.state == "no valid observation"


def test_every_attempt_is_counted_where_it_arrived() -> None:
    pair = proven()
    assert comparison_table.arrivals(pair.baseline, pair.baseline_results) == (12, 12)
    elsewhere = msgspec.structs.replace(pair.baseline, upstream_address="127.0.0.1:1")
    assert comparison_table.arrivals(elsewhere, pair.baseline_results) == (12, 0)


def test_of_very_many_rows_the_wrong_one_comes_first_and_the_rest_is_in_crowds() -> None:
    pair = many(100, 1)
    every = comparison_table.of(pair.baseline, {B: pair.baseline_results, F: pair.fixed_results})
    shown, crowds = comparison_table.shown(every, 60)
    assert (len(every), len(shown)) == (200, 11)
    assert (shown[0].case.name, shown[0].as_declared) == ("survey-0099", False)
    assert {row.mode for row in shown} == {Mode.RETRY, Mode.DIRECT}
    assert sorted(len(crowd.names) for crowd in crowds) == [94, 95]
    assert comparison_table.shown(every[:60], 60) == (every[:60], ())
