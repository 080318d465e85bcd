"""Verdicts: of a cell from its checks, and whether that is what its variant must show."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sessions.matrix.checks import Check, CheckName


class Verdict(StrEnum):
    """What a cell showed."""

    PASS = "pass"  # noqa: S105 - a verdict
    MISMATCH = "mismatch"
    INCONCLUSIVE = "inconclusive"


class ProtocolMismatch(AssertionError):  # noqa: N818 - what was seen, not an error of ours
    """A cell failed exactly the checks that it must fail on the baseline."""


def failed(checks: Sequence[Check]) -> tuple[CheckName, ...]:
    """Return the names of the checks that do not hold."""
    return tuple(check.name for check in checks if not check.holds)


def of_checks(checks: Sequence[Check]) -> Verdict:
    """Return the verdict of a cell with a valid observation.

    A cell without a single check shows nothing.
    """
    if not checks:
        return Verdict.INCONCLUSIVE
    return Verdict.MISMATCH if failed(checks) else Verdict.PASS


def as_declared(
    verdict: Verdict, failed_checks: Iterable[CheckName], must_fail: Iterable[CheckName]
) -> bool:
    """Whether exactly the declared checks failed: none of them for a cell that must hold."""
    if verdict is Verdict.INCONCLUSIVE:
        return False
    return set(failed_checks) == set(must_fail)
