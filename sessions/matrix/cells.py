"""Cells: case x mode x repeat. Each is one client request and what followed, all of it recorded.

The first repeats have a fresh VM each, so that what a plugin draws by chance when it starts is
drawn again; later repeats have the VM of the last of these, so that a plugin that works only in a
fresh VM is seen. A cell that is not as declared is run once more, alone, in a fresh VM: where the
two differ, what was seen depends on earlier cells or on chance, and shows nothing of the plugin.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from containers.client import NoAnswer
from containers.exchange import Attempt, Request, Response
from sessions.matrix import crash_lines, exact_json, masking, oracle, verdict
from sessions.matrix.case import Case, Mode
from sessions.matrix.checks import Check, CheckName, in_order
from sessions.matrix.records import Cell, Observation, Result
from sessions.matrix.verdict import Verdict
from wasm.foundation.errors import GatewayError
from wasm.records import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from containers.endings import Ending
    from containers.exchange import Headers, Journal
    from wasm.records import Variant

# Lines of the plugin's log that say the testbed, not the plugin, kept a retry from going out.
_TESTBED_FAULTS = ("get route cluster failed",)
# Before what a plugin logs. Higress' SDK logs at the start of every plugin that has handlers.
_LOGGED = " wasm log "
_THE_GATEWAYS = re.compile(
    r"date|server|connection|content-length|transfer-encoding|x-request-id|x-forwarded-.*|x-envoy-.*"
)
_IDLE = (
    "the plugin does nothing: it has logged nothing since it was loaded, and the request and its "
    "answer passed through unchanged; expected handlers that are registered in init(), since a "
    "Wasm reactor never runs main()"
)
_NOT_LOGGED = "the gateway's access log has no line for the request, so who answered is not known"
_JSON = ("content-type", "application/json")
# The same for every gateway, whatever port it got: nothing but the module may differ.
# Fewer than the repeats that release evidence needs: what works once in a VM must work again there.
FRESH_VMS = 2
# So often is the same finding in the same case and mode confirmed in a fresh VM.
_CONFIRMED_AT_MOST = 3
_CLIENT = (("host", "gateway-proof.example"), ("user-agent", "gateway-proof"), ("accept", "*/*"))


class OpenTestbed(Protocol):
    """What a cell needs of an open testbed (containers/testbed.py)."""

    upstream_address: str

    def renew(self, *listeners: str) -> None:
        """Give some listeners' plugins a fresh VM each; all of them when none is named."""

    def vm(self, listener: str) -> str:
        """Return the name of the VM that a listener's plugin runs in."""

    def refusal(self, listener: str) -> str:
        """Say why the gateway does not have a listener; empty when it has."""

    def install(self, script: dict[str, Any]) -> int:
        """Reset the upstream and give it a script; return its epoch."""

    def send(self, listener: str, request: Request) -> Response:
        """Send a client's request to a case's listener."""

    def journal(self, epoch: int) -> Journal:
        """Return what reached the upstream in an epoch."""

    def trailing(self) -> bytes:
        """Return what has followed the end of the response."""

    def ending(self, request_id: str) -> Ending | None:
        """Return how the gateway's access log says that the request ended."""

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


def request(case: Case, cell: Cell, *, alone: bool = False) -> Request:
    """Return what the client sends in a cell; named by the cell's id, and when it is run alone."""
    name = cell.id_alone if alone else cell.id
    body = msgspec.json.encode(case.request.json)
    length = ("content-length", str(len(body)))
    return Request(
        method=case.request.method,
        target=case.request.target,
        headers=(*_CLIENT, _JSON, length, ("x-request-id", name)),
        body=body,
        body_sha256=sha256_of(body),
    )


def run(
    testbed: OpenTestbed,
    case: Case,
    cell: Cell,
    variant: Variant,
    earlier: Sequence[Result] = (),
) -> Result:
    """Run one cell: reset the upstream, send the request, read the journal, judge.

    Nothing that happens to gateway or upstream is raised: it makes the cell inconclusive, with
    the reason in a sentence.

    Args:
        testbed: Where it is run.
        case: Its case.
        cell: Which it is.
        variant: The variant of the testbed's module.
        earlier: The results of the run so far.
    """
    begins = cell.repeat <= FRESH_VMS and earlier and earlier[-1].cell.repeat < cell.repeat
    seen = _observed(testbed, case, cell, renewed=() if begins else None)
    result = conclude(case, cell, variant, seen, testbed.upstream_address)
    if result.verdict is not Verdict.PASS:
        seen = _with_ending(testbed, seen, cell.id, judged=bool(result.checks))
        result = conclude(case, cell, variant, seen, testbed.upstream_address)
    if not result.as_declared and passed_through(seen) and not _plugin_has_logged(testbed):
        idle = msgspec.structs.replace(seen, fault=_IDLE)
        return conclude(case, cell, variant, idle, testbed.upstream_address)
    if not to_be_confirmed(result, earlier):
        return result
    alone = _observed(testbed, case, cell, renewed=(case.name,), alone=True)
    again = conclude(case, cell, variant, alone, testbed.upstream_address)
    if again.verdict is not Verdict.PASS:
        alone = _with_ending(testbed, alone, cell.id_alone, judged=bool(again.checks))
    return conclude(case, cell, variant, seen, testbed.upstream_address, alone)


def _with_ending(
    testbed: OpenTestbed, seen: Observation, name: str, *, judged: bool
) -> Observation:
    """Add what the gateway's access log has of a request that is not all right.

    What is all right nobody but plugin and upstream can have answered.
    """
    if not (seen.response or seen.attempts):
        return seen
    ending = masking.masked_ending(testbed.ending(name))
    unknown = _NOT_LOGGED if judged and ending is None else ""
    return msgspec.structs.replace(seen, ending=ending, fault=seen.fault or unknown)


def passed_through(seen: Observation) -> bool:
    """Whether request and answer went through the gateway as if it had no plugin. Pure."""
    if seen.fault or seen.response is None or len(seen.attempts) != 1:
        return False
    request, attempt, response = seen.request, seen.attempts[0], seen.response
    answered = attempt.answered
    if answered is None:
        return False
    sent = (request.method, request.target, request.body, b"")
    got = (answered.status, answered.body, b"")
    return (
        (attempt.method, attempt.target, attempt.body, attempt.trailing) == sent
        and (response.status, response.body, response.trailing) == got
        and _of_others(request.headers) == _of_others((*attempt.headers, ("host", attempt.host)))
        and _of_others(answered.headers) == _of_others(response.headers)
    )


def _of_others(headers: Headers) -> Counter[tuple[str, str]]:
    """Return headers without those that the gateway and the mock set or drop."""
    return Counter(each for each in headers if not _THE_GATEWAYS.fullmatch(each[0]))


def _plugin_has_logged(testbed: OpenTestbed) -> bool:
    return _LOGGED in testbed.log_since(0)


def to_be_confirmed(result: Result, earlier: Sequence[Result]) -> bool:
    """Whether a cell is to be run once more, alone in a fresh VM. Pure.

    So is every cell that is not as declared, until the same finding in the same case and mode has
    been confirmed several times; one that was not confirmed is never taken for granted again.
    """
    if result.as_declared or result.verdict is Verdict.INCONCLUSIVE:
        return False
    alike = [
        each
        for each in earlier
        if each.alone is not None
        and (each.cell.case, each.cell.mode) == (result.cell.case, result.cell.mode)
    ]
    confirmed = [each for each in alike if each.verdict is not Verdict.INCONCLUSIVE]
    same = [each for each in confirmed if each.failed_checks == result.failed_checks]
    return len(confirmed) < len(alike) or len(same) < _CONFIRMED_AT_MOST


def conclude(  # noqa: PLR0913, PLR0917 - what a conclusion follows from
    case: Case,
    cell: Cell,
    variant: Variant,
    seen: Observation,
    upstream_address: str,
    alone: Observation | None = None,
) -> Result:
    """Return what an observation means. Pure: the same again from what was recorded of it.

    Args:
        case: The cell's case.
        cell: Which it is.
        variant: Whose module was run.
        seen: What was seen.
        upstream_address: Where every attempt must have arrived.
        alone: What was seen when the cell was run again, alone in a fresh VM.
    """
    fault, checks = _judged(case, cell, seen, upstream_address)
    found = verdict.of_checks(checks)
    failed = verdict.failed(checks)
    must_fail = in_order(case.expected_failures(variant, cell.mode))
    reason = fault or ", ".join(failed)
    if alone is not None and found is not Verdict.INCONCLUSIVE:
        fault_alone, checks_alone = _judged(case, cell, alone, upstream_address)
        if fault_alone or verdict.failed(checks_alone) != failed:
            again = fault_alone or f"failed {_listed(verdict.failed(checks_alone))}"
            reason = (
                f"it depends on what ran before it, or on chance: failed {_listed(failed)}; run "
                f"again, alone in a fresh VM: {again}"
            )
            found = Verdict.INCONCLUSIVE
    return Result(
        cell=cell,
        variant=variant,
        request=seen.request,
        response=seen.response,
        attempts=seen.attempts,
        ending=seen.ending,
        checks=checks,
        verdict=found,
        expected=Verdict.MISMATCH if must_fail else Verdict.PASS,
        must_fail=must_fail,
        as_declared=verdict.as_declared(found, failed, must_fail),
        reason=reason,
        seconds=seen.seconds,
        vm=seen.vm,
        fault=seen.fault,
        alone=alone,
        bodies={
            digest: value
            for each in (seen, *([alone] if alone else []))
            for digest, value in _json_values(each)
        },
    )


def _judged(
    case: Case, cell: Cell, seen: Observation, upstream_address: str
) -> tuple[str, tuple[Check, ...]]:
    """Return why an observation is not valid, or its checks."""
    fault = _with_the_gateway_s(seen.fault or _broken_off(seen.attempts), seen.ending)
    if fault or seen.response is None:
        return fault, ()
    return "", oracle.judge(case, cell.mode, seen.attempts, seen.response, upstream_address)


def _listed(failed: Sequence[CheckName]) -> str:
    return ", ".join(failed) or "no check"


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


def _observed(
    testbed: OpenTestbed,
    case: Case,
    cell: Cell,
    *,
    renewed: tuple[str, ...] | None = None,
    alone: bool = False,
) -> Observation:
    """Observe a cell, credentials masked.

    Args:
        testbed: Where it is run.
        case: Its case.
        cell: Which it is.
        renewed: The listeners that get a fresh VM first: an empty tuple for all, None for none.
        alone: Whether it is run once more.
    """
    start = time.perf_counter()
    sent = request(case, cell, alone=alone)
    try:
        if renewed is not None:
            testbed.renew(*renewed)
        refusal = testbed.refusal(case.name)
        if refusal:
            fault = f"the plugin of case {case.name} did not start: {refusal}"
            seen = Observation(request=sent, response=None, fault=fault)
        else:
            seen = _observe(testbed, case, cell, sent)
    except GatewayError as error:
        fault = testbed.trouble() or error.sentence
        seen = Observation(request=sent, response=None, fault=fault)
    return msgspec.structs.replace(
        masking.masked(seen), vm=testbed.vm(case.name), seconds=time.perf_counter() - start
    )


def _observe(testbed: OpenTestbed, case: Case, cell: Cell, sent: Request) -> Observation:
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
        if response is not None:
            response = msgspec.structs.replace(response, trailing=testbed.trailing())
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
    line = crash_lines.first(log)
    if not line and not journal.attempts:
        line = crash_lines.first(testbed.log_since(0))
    return crash_lines.said_by(line) if line else ""


def _broken_off(attempts: Sequence[Attempt]) -> str:
    """Say which attempt never had its answer: what followed it says nothing of the plugin."""
    for attempt in attempts:
        if attempt.error or attempt.answered is None:
            why = attempt.error or "it was not answered"
            return f"the exchange of attempt {attempt.order} with the upstream broke off: {why}"
    return ""


def _with_the_gateway_s(fault: str, ending: Ending | None) -> str:
    """Add to a fault that the gateway answered, or broke off, in place of plugin and upstream."""
    own = ending.own if ending else ""
    if not own or own in fault:
        return fault
    said = f"the gateway itself ended the exchange; its access log says: {own}"
    return f"{fault}; {said}" if fault else said


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
    if journal.complete:
        return ""
    why = "more attempts than it keeps, or what no HTTP server would read"
    for attempt in journal.attempts:
        if attempt.truncated:
            kept, of = len(attempt.body), attempt.body_bytes
            why = f"of the {of} bytes of attempt {attempt.order}'s body it kept {kept}"
    if journal.in_flight:
        why = f"{_attempts(journal.in_flight)} under way"
    return f"the upstream's journal is incomplete ({why})"


def _testbed_fault(log: str) -> str:
    for line in log.splitlines():
        if any(fault in line for fault in _TESTBED_FAULTS):
            return (
                f"the testbed kept the retry from going out; the plugin's log says: {line.strip()}"
            )
    return ""


def _answer(status: int, json: Any) -> dict[str, Any]:  # noqa: ANN401 - a case's value
    return {"status": status, "headers": [_JSON], "json_body": json}
