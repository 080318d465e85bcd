"""Verdicts from checks, and whether they are what was declared."""

from __future__ import annotations

import pytest

from sessions.matrix import verdict
from sessions.matrix.checks import Check, CheckName, in_order, names_for
from sessions.matrix.verdict import Verdict

PATH, BODY = CheckName.RETRY_PATH, CheckName.RETRY_BODY


def check(name: CheckName, *, holds: bool) -> Check:
    return Check(name=name, expected=1, actual=1 if holds else 2, holds=holds)


def test_no_check_at_all_is_inconclusive() -> None:
    assert verdict.of_checks([]) is Verdict.INCONCLUSIVE


def test_all_checks_that_hold_are_a_pass_and_one_that_does_not_is_a_mismatch() -> None:
    assert verdict.of_checks([check(PATH, holds=True)]) is Verdict.PASS
    mixed = [check(PATH, holds=True), check(BODY, holds=False)]
    assert verdict.of_checks(mixed) is Verdict.MISMATCH
    assert verdict.failed(mixed) == (BODY,)


@pytest.mark.parametrize(
    ("found", "failed", "must_fail", "declared"),
    [
        (Verdict.PASS, (), (), True),
        (Verdict.PASS, (), (PATH,), False),
        (Verdict.MISMATCH, (PATH, BODY), (BODY, PATH), True),
        (Verdict.MISMATCH, (PATH,), (PATH, BODY), False),
        (Verdict.MISMATCH, (PATH, BODY), (PATH,), False),
        (Verdict.MISMATCH, (PATH,), (), False),
        (Verdict.INCONCLUSIVE, (), (), False),
        (Verdict.INCONCLUSIVE, (PATH,), (PATH,), False),
    ],
)
def test_only_exactly_the_declared_checks_are_as_declared(
    found: Verdict,
    failed: tuple[CheckName, ...],
    must_fail: tuple[CheckName, ...],
    declared: bool,  # noqa: FBT001
) -> None:
    assert verdict.as_declared(found, failed, must_fail) is declared


def test_mode_direct_has_no_check_of_a_retry() -> None:
    assert set(names_for(retry=True)) - set(names_for(retry=False)) == {
        "retry_key",
        "retry_method",
        "retry_path",
        "retry_body",
        "retry_headers",
    }


def test_checks_are_named_in_the_order_in_which_they_are_made() -> None:
    assert in_order([CheckName.CLIENT_BODY, BODY, PATH, BODY]) == (PATH, BODY, "client_body")
