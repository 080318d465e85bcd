"""What is recorded of a cell: which it is, what was seen, and what that means."""

from __future__ import annotations

from typing import Any

import msgspec

from containers.exchange import Attempt, Request, Response
from sessions.matrix import verdict
from sessions.matrix.case import Mode
from sessions.matrix.checks import Check, CheckName
from sessions.matrix.verdict import Verdict


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """What identifies a cell, on either variant."""

    case: str
    mode: Mode
    repeat: int

    @property
    def id(self) -> str:
        """The cell's name: its request id in the gateway, its test id in pytest."""
        return f"{self.case}/{self.mode}/{self.repeat}"


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a cell; ``fault`` says why that is no valid observation, if it is none."""

    request: Request
    response: Response | None
    attempts: tuple[Attempt, ...] = ()
    fault: str = ""
    seconds: float = 0.0


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """All that was seen of a cell, and what it means.

    Attributes:
        must_fail: The checks that must fail on this variant, exactly these.
        request: As the client sent it.
        response: As the client got it; None when there was none.
        attempts: As they reached the upstream.
        checks: Each with expected and actual; empty without a valid observation.
        reason: Why it is inconclusive, or which checks failed; empty for a pass.
        expected: The verdict that this variant must show.
        as_declared: Whether it showed exactly that.
        seconds: For the whole cell, reset and journal included.
        bodies: SHA-256 -> the JSON value, of every body above that is one.
    """

    cell: Cell
    variant: str
    request: Request
    response: Response | None
    attempts: tuple[Attempt, ...]
    checks: tuple[Check, ...]
    verdict: Verdict
    expected: Verdict
    must_fail: tuple[CheckName, ...]
    as_declared: bool
    reason: str
    seconds: float
    bodies: dict[str, Any] = {}

    @property
    def observation(self) -> Observation:
        """What was seen, without what it means."""
        inconclusive = self.verdict is Verdict.INCONCLUSIVE
        return Observation(
            request=self.request,
            response=self.response,
            attempts=self.attempts,
            fault=self.reason if inconclusive else "",
            seconds=self.seconds,
        )

    @property
    def finding(self) -> str:
        """What was found against what was declared, in a clause."""
        if self.verdict is Verdict.INCONCLUSIVE:
            return f"inconclusive: {self.reason}"
        wanted = ", ".join(self.must_fail) or "no check"
        return f"expected {wanted} to fail, failed: {', '.join(self.failed_checks) or 'none'}"

    @property
    def failed_checks(self) -> tuple[CheckName, ...]:
        """The names of the checks that do not hold."""
        return verdict.failed(self.checks)

    @property
    def first_key(self) -> str | None:
        """The key of the first attempt."""
        return self.attempts[0].key if self.attempts else None
