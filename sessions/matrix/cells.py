"""Cells: case x mode x repeat. Each is one client request and what followed, recorded whole."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from containers.exchange import Attempt, Request, Response
from containers.testbed import NoAnswer
from sessions.matrix import breakdowns, exact_json, masking, oracle, verdict
from sessions.matrix.case import Case, Mode
from sessions.matrix.checks import Check, in_order
from sessions.matrix.records import Cell, Observation, Result
from sessions.matrix.verdict import Verdict
from wasm.errors import GatewayError
from wasm.records import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from containers.exchange import Journal
    from wasm.records import Variant

# Lines of the plugin's log that say the testbed, not the plugin, kept a retry from going out.
_TESTBED_FAULTS = ("get route cluster failed",)
_JSON = ("content-type", "application/json")
# The same for every gateway, whatever port it got: nothing but the module may differ.
_CLIENT = (("host", "gateway-proof.example"), ("user-agent", "gateway-proof"), ("accept", "*/*"))


class OpenTestbed(Protocol):
    """What a cell needs of an open testbed (containers/testbed.py)."""

    upstream_address: str

    def install(self, script: dict[str, Any]) -> int:
        """Reset the upstream and give it a script; return its epoch."""

    def send(self, listener: str, request: Request) -> Response:
        """Send a client's request to a case's listener."""

    def journal(self, epoch: int) -> Journal:
        """Return what reached the upstream in an epoch."""

    def log_position(self) -> float:
        """Return how much the gateway has logged."""

    def log_since(self, position: float) -> str:
        """Return what it has logged since."""

    def trouble(self) -> str | None:
        """Say what has ended before its time, if anything."""


def plan(cases: Sequence[Case], repeats: int) -> tuple[Cell, ...]:
    """Return every cell of some cases, in the order in which they are run."""
    return tuple(
        Cell(case=case.name, mode=mode, repeat=repeat)
        for repeat in range(1, repeats + 1)
        for case in cases
        for mode in case.modes
    )


def script(case: Case, mode: Mode) -> dict[str, Any]:
    """Return the upstream's script for a case in a mode.

    The upstream accepts the attempt that is to succeed only when it is what the case says; the
    retry only with another key than the first attempt's.
    """
    matches = {
        "method": case.upstream.method,
        "path": case.upstream.target,
        "json_body": case.upstream.json,
        "bearer_in": case.keys,
    }
    accept = {"match": matches, "respond": _answer(case.success.status, case.success.json)}
    if mode is Mode.DIRECT:
        return {"steps": [{"name": "first", **accept}]}
    matches["bearer_differs_from_previous"] = True
    refuse = {"name": "first", "respond": _answer(case.failure.status, case.failure.json)}
    return {"steps": [refuse, {"name": "retry", **accept}]}


def request(case: Case, cell: Cell) -> Request:
    """Return what the client sends in a cell; named by the cell's id."""
    body = msgspec.json.encode(case.request.json)
    length = ("content-length", str(len(body)))
    return Request(
        method=case.request.method,
        target=case.request.target,
        headers=(*_CLIENT, _JSON, length, ("x-request-id", cell.id)),
        body=body,
        body_sha256=sha256_of(body),
    )


def run(testbed: OpenTestbed, case: Case, cell: Cell, variant: Variant) -> Result:
    """Run one cell: reset the upstream, send the request, read the journal, judge.

    Nothing that happens to gateway or upstream is raised: it makes the cell inconclusive, with
    the reason in a sentence.
    """
    start = time.perf_counter()
    seen = masking.masked(_observe(testbed, case, cell))
    seen = msgspec.structs.replace(seen, seconds=time.perf_counter() - start)
    return conclude(case, cell, variant, seen, testbed.upstream_address)


def conclude(
    case: Case, cell: Cell, variant: Variant, seen: Observation, upstream_address: str
) -> Result:
    """Return what an observation means. Pure: the same again from what was recorded of it."""
    checks: tuple[Check, ...] = ()
    fault = seen.fault or _broken_off(seen.attempts)
    if seen.response is not None and not fault:
        checks = oracle.judge(case, cell.mode, seen.attempts, seen.response, upstream_address)
    found = verdict.of_checks(checks)
    failed = verdict.failed(checks)
    must_fail = in_order(case.expected_failures(variant, cell.mode))
    return Result(
        cell=cell,
        variant=variant,
        request=seen.request,
        response=seen.response,
        attempts=seen.attempts,
        checks=checks,
        verdict=found,
        expected=Verdict.MISMATCH if must_fail else Verdict.PASS,
        must_fail=must_fail,
        as_declared=verdict.as_declared(found, failed, must_fail),
        reason=fault or ", ".join(failed),
        seconds=seen.seconds,
        bodies=dict(_json_values(seen)),
    )


def _json_values(seen: Observation) -> Iterator[tuple[str, Any]]:
    """Give digest and value of every body that is JSON, each as it was recorded."""
    bodies = [seen.request.body, *(attempt.body for attempt in seen.attempts)]
    bodies += [attempt.answered.body for attempt in seen.attempts if attempt.answered]
    bodies += [seen.response.body] if seen.response else []
    for body in bodies:
        try:
            yield sha256_of(body), exact_json.held(body)
        except ValueError:
            continue


def _observe(testbed: OpenTestbed, case: Case, cell: Cell) -> Observation:
    sent = request(case, cell)
    position = testbed.log_position()
    response: Response | None = None
    silence: NoAnswer | None = None
    try:
        epoch = testbed.install(script(case, cell.mode))
        try:
            response = testbed.send(case.name, sent)
        except NoAnswer as error:
            silence = error
        journal = testbed.journal(epoch)
    except GatewayError as error:
        fault = testbed.trouble() or error.sentence
        return Observation(request=sent, response=response, fault=fault)
    log = testbed.log_since(position)
    if silence is not None:
        fault = testbed.trouble() or _broken_down(testbed, log, journal)
        fault = fault or _silent(silence, journal)
    else:
        fault = _incomplete(journal) or _broken_down(testbed, log, journal)
        if not fault and len(journal.attempts) < len(script(case, cell.mode)["steps"]):
            fault = _testbed_fault(log)
    return Observation(request=sent, response=response, attempts=journal.attempts, fault=fault)


def _broken_down(testbed: OpenTestbed, log: str, journal: Journal) -> str:
    """Say that the plugin broke down in this cell, or has done so before and is gone since."""
    line = breakdowns.first(log)
    if not line and not journal.attempts:
        line = breakdowns.first(testbed.log_since(0))
    return breakdowns.said_by(line) if line else ""


def _broken_off(attempts: Sequence[Attempt]) -> str:
    """Say which attempt never had its answer: what followed it says nothing of the plugin."""
    for attempt in attempts:
        if attempt.error or attempt.answered is None:
            why = attempt.error or "it was not answered"
            return f"the exchange of attempt {attempt.order} with the upstream broke off: {why}"
    return ""


def _silent(silence: NoAnswer, journal: Journal) -> str:
    if journal.attempts:
        return f"{silence}, though {_attempts(len(journal.attempts))} reached the upstream"
    if not silence.waited:
        return f"{silence}, and nothing reached the upstream"
    return (
        f"{silence}, and nothing reached the upstream: the gateway holds the request (is "
        "allow_on_headers_stop_iteration set for the plugin?)"
    )


def _attempts(number: int) -> str:
    return f"{number} attempt{'' if number == 1 else 's'}"


def _incomplete(journal: Journal) -> str:
    if journal.late:
        return (
            "an attempt of an earlier cell was still under way, so this cell's cannot be told apart"
        )
    if not journal.complete:
        under_way = (
            f"{_attempts(journal.in_flight)} under way" if journal.in_flight else "a body cut"
        )
        return f"the upstream's journal is incomplete ({under_way})"
    return ""


def _testbed_fault(log: str) -> str:
    for line in log.splitlines():
        if any(fault in line for fault in _TESTBED_FAULTS):
            return (
                f"the testbed kept the retry from going out; the plugin's log says: {line.strip()}"
            )
    return ""


def _answer(status: int, json: Any) -> dict[str, Any]:  # noqa: ANN401 - a case's value
    return {"status": status, "headers": [_JSON], "json_body": json}
