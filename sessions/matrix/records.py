"""What is recorded of a cell: which it is, what was seen, and what that means."""

from __future__ import annotations

from typing import Any

import msgspec

from containers.endings import Ending
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

    @property
    def id_alone(self) -> str:
        """Its request id when it is run once more, alone in a fresh VM."""
        return f"{self.id}/alone"


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a cell.

    Attributes:
        fault: Why it is no valid observation; empty when it is one.
        vm: The VM of the plugin that had the request.
        seconds: For all of it, reset and journal included.
    """

    request: Request
    response: Response | None
    attempts: tuple[Attempt, ...] = ()
    ending: Ending | None = None
    fault: str = ""
    vm: str = ""
    seconds: float = 0.0


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """All that was seen of a cell, and what it means.

    Attributes:
        must_fail: The checks that must fail on this variant, exactly these.
        request: As the client sent it.
        response: As the client got it; None when there was none.
        attempts: As they reached the upstream.
        ending: How the gateway's access log says that the request ended; where a check
            failed or the response broke off, else None.
        checks: Each with expected and actual; empty without a valid observation.
        reason: Why it is inconclusive, or which checks failed; empty for a pass.
        fault: Why what was seen is no valid observation; empty when it is one.
        expected: The verdict that this variant must show.
        as_declared: Whether it showed exactly that.
        vm: The VM of the plugin that had the request.
        alone: The same cell again, in a fresh VM; of a cell that was not as declared.
        seconds: For the cell, reset and journal included.
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
    vm: str = ""
    fault: str = ""
    alone: Observation | None = None
    bodies: dict[str, Any] = {}
    ending: Ending | None = None

    @property
    def observation(self) -> Observation:
        """What was seen first, without what it means."""
        return Observation(
            request=self.request,
            response=self.response,
            attempts=self.attempts,
            ending=self.ending,
            fault=self.fault,
            vm=self.vm,
            seconds=self.seconds,
        )

    @property
    def exchanges(self) -> dict[str, Observation]:
        """All that was seen of the cell, in order, by the request's id."""
        found = {self.cell.id: self.observation}
        return found | ({self.cell.id_alone: self.alone} if self.alone else {})

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
