"""Cells: their plan, the upstream's script, and what becomes of one whatever happens to it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from containers.client import NoAnswer
from containers.endings import Ending
from containers.exchange import Answer, Journal, Request, Response
from sessions.evidence.pair.compare import ENOUGH_REPEATS
from sessions.matrix import case as cases
from sessions.matrix import cells
from sessions.matrix.case import Mode
from sessions.matrix.records import Cell, Result
from sessions.matrix.verdict import Verdict
from tests.unit.matrix.observations import (
    ADDRESS,
    DEFECT,
    KLING,
    attempt,
    defective,
    response,
    right,
)
from wasm.foundation.errors import GatewayError
from wasm.records import Variant

CELL = Cell(case=KLING.name, mode=Mode.RETRY, repeat=1)
EPOCH = 7
TOO_LARGE = Ending(flags="-", details="response_payload_too_large")
VIA_UPSTREAM = Ending(flags="-", details="via_upstream")


class Double:
    """A testbed that answers as it is told to, and notes what it was asked."""

    upstream_address = ADDRESS
    vms = 1
    refused = ""

    def __init__(self, **happens: Any) -> None:
        self.response: Response | Exception | None = right(KLING, Mode.RETRY).response
        self.journal_is: dict[str, Any] | Exception = {}
        self.refuses: Exception | None = None
        self.ended: str | None = None
        self.logs: tuple[str, str] = ("", "")
        self.follows = b""
        self.ends: Ending | None = VIA_UPSTREAM
        vars(self).update(happens)
        self.asked: list[str] = []
        self.script: dict[str, Any] = {}
        self.request: Request | None = None

    def renew(self, *listeners: str) -> None:
        """Count the fresh VMs."""
        self.asked.append(f"renew {','.join(listeners) or 'all'}")
        self.vms += 1

    def vm(self, listener: str) -> str:
        """Name the VM by its number."""
        return f"{listener}#{self.vms}"

    def refusal(self, listener: str) -> str:  # noqa: ARG002 - the protocol's
        """Refuse, as it was told."""
        return self.refused

    def log_position(self) -> float:
        """How much was logged before the cell."""
        return len(self.logs[0])

    def log_since(self, position: float) -> str:
        """What was logged from there."""
        return "".join(self.logs)[int(position) :]

    def trouble(self) -> str | None:
        """What has ended, as it was told."""
        return self.ended

    def install(self, script: dict[str, Any]) -> int:
        """Take the script, or refuse it."""
        self.asked.append("install")
        if self.refuses:
            raise self.refuses
        self.script = script
        return EPOCH

    def send(self, listener: str, request: Request) -> Response:
        """Answer with the response, or with silence."""
        self.asked.append(f"send {listener}")
        self.request = request
        if isinstance(self.response, Exception):
            raise self.response
        assert self.response is not None
        return self.response

    def trailing(self) -> bytes:
        """What follows the response."""
        return self.follows

    def ending(self, request_id: str) -> Ending | None:
        """What the access log says of it."""
        self.asked.append(f"ending {request_id}")
        return self.ends

    def journal(self, epoch: int) -> Journal:
        """Answer with the journal; unless told otherwise, of both attempts."""
        self.asked.append(f"journal {epoch}")
        if isinstance(self.journal_is, Exception):
            raise self.journal_is
        both = (attempt(KLING, 1), attempt(KLING, 2))
        fields = {"epoch": epoch, "in_flight": 0, "complete": True, "attempts": both}
        return Journal(**{**fields, **self.journal_is})


def run(variant: Variant = Variant.FIXED, **happens: Any) -> Result:
    return cells.run(Double(**happens), KLING, CELL, variant)


def inconclusive(result: Result) -> str:
    """The reason of a result that shows nothing, which must be so in every respect."""
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.checks == ()
    assert not result.as_declared
    assert result.finding == f"inconclusive: {result.reason}"
    return result.reason


def test_the_plan_runs_every_case_in_each_mode_before_it_repeats() -> None:
    assert [cell.id for cell in cells.plan(cases.load(), 2)] == [
        f"{name}/{mode}/{repeat}"
        for repeat in (1, 2)
        for name in ("kling-image-to-video", "kling-text-to-video", "openai-chat")
        for mode in ("retry", "direct")
    ]


def test_a_default_run_has_eighteen_cells_each_with_an_id_of_its_own() -> None:
    ids = {cell.id for cell in cells.plan(cases.load(), 3)}
    assert len(ids) == 18


def test_a_case_for_one_mode_is_planned_in_that_mode_alone() -> None:
    only = msgspec.structs.replace(KLING, modes=[Mode.DIRECT])
    assert [cell.id for cell in cells.plan([only], 1)] == ["kling-text-to-video/direct/1"]


ACCEPTED = {
    "method": "POST",
    "path": "/v1/videos/text2video?trace=1",
    "json_body": {"model_name": "up-m1", "prompt": "a paper boat on a lake"},
    "bearer_in": ["dummy-key-a", "dummy-key-b"],
}
JSON_HEADER = [("content-type", "application/json")]


def test_in_mode_retry_the_upstream_refuses_any_first_attempt_and_takes_another_key_alone() -> None:
    refuse, accept = cells.script(KLING, Mode.RETRY)["steps"]
    assert refuse == {
        "name": "first",
        "respond": {
            "status": 503,
            "headers": JSON_HEADER,
            "json_body": {"code": 1303, "message": "busy"},
        },
    }
    assert accept["name"] == "retry"
    assert accept["match"] == {**ACCEPTED, "bearer_differs_from_previous": True}
    assert accept["respond"]["status"] == 200
    assert accept["respond"]["json_body"]["data"]["task_id"] == "task-1"


def test_in_mode_direct_the_upstream_takes_the_first_attempt() -> None:
    (accept,) = cells.script(KLING, Mode.DIRECT)["steps"]
    assert accept["name"] == "first"
    assert accept["match"] == ACCEPTED
    assert accept["respond"]["status"] == 200


def test_a_cell_resets_the_upstream_then_sends_then_reads_the_journal_of_its_own_epoch() -> None:
    testbed = Double()
    cells.run(testbed, KLING, CELL, Variant.FIXED)
    assert testbed.asked == ["install", "send kling-text-to-video", "journal 7"]
    assert testbed.script == cells.script(KLING, Mode.RETRY)
    assert testbed.request == Request(
        method="POST",
        target="/v1/videos?trace=1",
        headers=(
            ("host", "gateway-proof.example"),
            ("user-agent", "gateway-proof"),
            ("accept", "*/*"),
            ("content-type", "application/json"),
            ("content-length", "48"),
            ("x-request-id", "kling-text-to-video/retry/1"),
        ),
        body=b'{"model":"m1","prompt":"a paper boat on a lake"}',
        body_sha256="f70c4447b4dd766a0bf13ce6cecf3f20a8419fe32be0d8a31c85bcf4996b8a92",
    )


def test_a_cell_that_is_all_right_passes_on_the_fixed_module() -> None:
    result = run()
    assert (result.verdict, result.expected, result.must_fail) == ("pass", "pass", ())
    assert result.as_declared
    assert result.reason == ""
    assert result.first_key == "dummy-key-a"
    assert result.seconds > 0


def test_the_same_cell_is_not_as_declared_on_the_baseline() -> None:
    result = run(Variant.BASELINE)
    assert (result.verdict, result.expected, result.must_fail) == ("pass", "mismatch", DEFECT)
    assert not result.as_declared
    assert result.finding == (
        "expected retry_path, retry_body, client_status, client_body to fail, failed: none"
    )


def test_the_defect_is_as_declared_on_the_baseline_and_not_on_the_fixed_module() -> None:
    shown = defective(KLING)
    happens = {"response": shown.response, "journal_is": {"attempts": shown.attempts}}
    baseline, fixed = run(Variant.BASELINE, **happens), run(Variant.FIXED, **happens)
    assert baseline.verdict is fixed.verdict is Verdict.MISMATCH
    assert baseline.as_declared
    assert not fixed.as_declared
    assert baseline.reason == "retry_path, retry_body, client_status, client_body"
    assert fixed.finding == (
        "expected no check to fail, failed: retry_path, retry_body, client_status, client_body"
    )


SILENCE = "no response within 10 s"
GONE = "the gateway was ended by SIGKILL before the matrix was done; its last log line: x"
MUTE = GatewayError(
    "the upstream's control port did not answer (ConnectError); expected it to live"
)
ROUTE = "[warning] wasm log: get route cluster failed, err: not found"

TROUBLES: dict[str, tuple[dict[str, Any], str]] = {
    "silence without an attempt (T7)": (
        {"response": NoAnswer(SILENCE, waited=True), "journal_is": {"attempts": ()}},
        (
            "no response within 10 s, and nothing reached the upstream: the gateway holds the "
            "request (is allow_on_headers_stop_iteration set for the plugin?)"
        ),
    ),
    "a refused connection": (
        {"response": NoAnswer("ConnectError: refused"), "journal_is": {"attempts": ()}},
        "ConnectError: refused, and nothing reached the upstream",
    ),
    "a response that the gateway broke off": (
        {"response": NoAnswer("RemoteProtocolError: closed"), "ends": TOO_LARGE},
        (
            "RemoteProtocolError: closed, though 2 attempts reached the upstream; the gateway "
            "itself ended the exchange; its access log says: response_payload_too_large"
        ),
    ),
    "silence with one attempt": (
        {"response": NoAnswer(SILENCE), "journal_is": {"attempts": (attempt(KLING, 1),)}},
        "no response within 10 s, though 1 attempt reached the upstream",
    ),
    "silence with two attempts": (
        {"response": NoAnswer(SILENCE)},
        "no response within 10 s, though 2 attempts reached the upstream",
    ),
    "the gateway gone": (
        {"response": NoAnswer("RemoteProtocolError: closed"), "ended": GONE},
        GONE,
    ),
    "the upstream gone before the request": (
        {"refuses": MUTE, "ended": "the upstream exited with status 3 before the matrix was done"},
        "the upstream exited with status 3 before the matrix was done",
    ),
    "the upstream gone after the response": ({"journal_is": MUTE}, MUTE.sentence),
    "the upstream refuses the script": (
        {"refuses": GatewayError("the upstream refused PUT /script: no")},
        "the upstream refused PUT /script: no",
    ),
    "an attempt still under way": (
        {"journal_is": {"complete": False, "in_flight": 1}},
        "the upstream's journal is incomplete (1 attempt under way)",
    ),
    "a body that was cut (T24)": (
        {
            "journal_is": {
                "complete": False,
                "attempts": (attempt(KLING, 1, truncated=True, body=b"12", body_bytes=9),),
            }
        },
        "the upstream's journal is incomplete (of the 9 bytes of attempt 1's body it kept 2)",
    ),
    "what was no request": (
        {"journal_is": {"complete": False}},
        (
            "the upstream's journal is incomplete (more attempts than it keeps, or what no HTTP "
            "server would read)"
        ),
    ),
    "an attempt of an earlier cell": (
        {"journal_is": {"late": (attempt(KLING, 1),)}},
        "an attempt of an earlier cell was still under way, so this cell's cannot be told apart",
    ),
    "no route cluster (T8)": (
        {"journal_is": {"attempts": (attempt(KLING, 1),)}, "logs": ("", f"a\n  {ROUTE}\nb\n")},
        f"the testbed kept the retry from going out; the plugin's log says: {ROUTE}",
    ),
}


@pytest.mark.parametrize(("happens", "reason"), TROUBLES.values(), ids=TROUBLES)
@pytest.mark.parametrize("variant", Variant)
def test_what_is_no_valid_observation_is_inconclusive_and_says_why(
    variant: Variant, happens: dict[str, Any], reason: str
) -> None:
    assert inconclusive(run(variant, **happens)) == reason


def test_a_fault_that_was_logged_in_an_earlier_cell_is_not_this_cell_s() -> None:
    assert run(logs=(f"{ROUTE}\n", "all well\n")).verdict is Verdict.PASS


def test_what_was_seen_is_kept_where_it_does_not_count() -> None:
    result = run(journal_is=MUTE)
    assert result.response is not None
    assert result.attempts == ()
    silent = run(response=NoAnswer(SILENCE))
    assert silent.response is None
    assert len(silent.attempts) == 2


@pytest.mark.parametrize(
    "happens",
    [
        {},
        {"response": NoAnswer(SILENCE)},
        {"response": defective(KLING).response},
        {"journal_is": {"attempts": (attempt(KLING, 1, body=b'{"n": 1e400}'),)}},
        {"journal_is": {"attempts": (attempt(KLING, 1, body=b'["\\ud800", NaN]'),)}},
        {"journal_is": {"attempts": (attempt(KLING, 1, body=b"\xff\x00"),)}},
        {"journal_is": {"attempts": (attempt(KLING, 1, body=b"[" * 100_000),)}},
        {"journal_is": {"attempts": (attempt(KLING, 1, body=str(2**90).encode()),)}},
    ],
    ids=["right", "silent", "wrong", "huge", "odd", "bytes", "deep", "big"],
)
def test_a_result_reads_back_from_json_as_it_was(happens: dict[str, Any]) -> None:
    for variant in Variant:
        result = run(variant, **happens)
        assert msgspec.json.decode(msgspec.json.encode(result), type=Result) == result


# --- Fresh VMs, and cells that are run again ------------------------------------------------------


class Scripted(Double):
    """A testbed whose plugin is right or wrong by the VM that it runs in."""

    def __init__(self, wrong_in: tuple[int, ...], **happens: Any) -> None:
        super().__init__(**happens)
        self.wrong_in = wrong_in

    def send(self, listener: str, request: Request) -> Response:
        """Answer as this VM's plugin does."""
        shown = defective(KLING) if self.vms in self.wrong_in else right(KLING, Mode.RETRY)
        self.response = shown.response
        self.journal_is = {"attempts": shown.attempts}
        return super().send(listener, request)


def all_repeats(testbed: Double, repeats: int, variant: Variant = Variant.FIXED) -> list[Result]:
    found: list[Result] = []
    for repeat in range(1, repeats + 1):
        cell = Cell(case=KLING.name, mode=Mode.RETRY, repeat=repeat)
        found.append(cells.run(testbed, KLING, cell, variant, found))
    return found


def test_t45_each_of_the_first_repeats_begins_in_a_fresh_vm_and_no_later_one() -> None:
    testbed = Double()
    found = all_repeats(testbed, 6)
    assert [each.vm.partition("#")[2] for each in found] == ["1", "2", "2", "2", "2", "2"]
    assert [asked for asked in testbed.asked if asked.startswith("renew")] == ["renew all"]


def test_a_fix_that_works_once_in_a_vm_does_not_pass_all_the_repeats_of_release_evidence() -> None:
    class Once(Double):
        """A testbed whose plugin is right in the first request to a VM, and wrong in all others."""

        used = ""

        def send(self, listener: str, request: Request) -> Response:
            """Answer as the first request to this VM, or as another."""
            again = self.vm(listener) == self.used
            self.used = self.vm(listener)
            shown = defective(KLING) if again else right(KLING, Mode.RETRY)
            self.response = shown.response
            self.journal_is = {"attempts": shown.attempts}
            return super().send(listener, request)

    found = all_repeats(Once(), ENOUGH_REPEATS)
    assert [each.verdict for each in found] == [Verdict.PASS, Verdict.PASS, Verdict.INCONCLUSIVE]
    assert "what ran before it" in found[-1].reason


def test_t23_a_cell_that_is_not_as_declared_is_run_again_alone_in_a_fresh_vm() -> None:
    testbed = Scripted(wrong_in=(1, 2))
    result = cells.run(testbed, KLING, CELL, Variant.FIXED)
    assert f"renew {KLING.name}" in testbed.asked
    assert result.verdict is Verdict.MISMATCH
    assert result.failed_checks == DEFECT
    assert result.alone is not None
    assert result.alone.vm != result.vm
    assert dict(result.alone.request.headers)["x-request-id"] == f"{CELL.id}/alone"
    assert [*result.exchanges] == [CELL.id, f"{CELL.id}/alone"]


def test_t23_where_the_two_differ_the_cell_is_inconclusive_and_both_are_recorded() -> None:
    result = cells.run(Scripted(wrong_in=(1,)), KLING, CELL, Variant.FIXED)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert not result.as_declared
    assert "what ran before it" in result.reason
    assert ", ".join(DEFECT) in result.reason
    assert result.failed_checks == DEFECT
    assert result.alone is not None
    assert result.alone.response == right(KLING, Mode.RETRY).response
    read = msgspec.json.decode(msgspec.json.encode(result), type=Result)
    again = cells.conclude(KLING, CELL, Variant.FIXED, read.observation, ADDRESS, read.alone)
    assert again == result


def test_a_baseline_that_passes_is_run_again_too() -> None:
    result = cells.run(Double(), KLING, CELL, Variant.BASELINE)
    assert result.alone is not None
    assert result.verdict is Verdict.PASS


def test_what_is_as_declared_or_has_no_valid_observation_is_not_run_again() -> None:
    assert run(Variant.FIXED).alone is None
    assert run(Variant.FIXED, response=NoAnswer(SILENCE)).alone is None


def test_the_same_finding_is_confirmed_a_few_times_and_no_more() -> None:
    found = all_repeats(Scripted(wrong_in=tuple(range(1, 50))), 12)
    assert [each.alone is not None for each in found] == [True] * 3 + [False] * 9
    assert {each.verdict for each in found} == {Verdict.MISMATCH}


def test_a_finding_that_was_once_not_confirmed_is_always_run_again() -> None:
    """Its VM 1 is wrong, and so are those of the later repeats, until a fresh one is right."""
    found = all_repeats(Scripted(wrong_in=(1, 3, 5, 7, 9, 11, 13)), 1)
    for repeat in range(4, 12):
        testbed = Scripted(wrong_in=(1,))
        cell = Cell(case=KLING.name, mode=Mode.RETRY, repeat=repeat)
        found.append(cells.run(testbed, KLING, cell, Variant.FIXED, found))
    assert all(each.alone is not None for each in found)
    assert {each.verdict for each in found} == {Verdict.INCONCLUSIVE}


def test_t31_a_case_whose_plugin_did_not_start_is_inconclusive_with_the_plugins_words() -> None:
    testbed = Double(refused="missing api-version")
    result = cells.run(testbed, KLING, CELL, Variant.BASELINE)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert KLING.name in result.reason
    assert "missing api-version" in result.reason
    assert not [asked for asked in testbed.asked if asked.startswith("send")]


UNTOUCHED = attempt(
    KLING,
    1,
    method=KLING.request.method,
    target=KLING.request.target,
    body=cells.request(KLING, CELL).body,
    headers=tuple(each for each in cells.request(KLING, CELL).headers if each[0] != "host"),
    host="gateway-proof.example",
    answered=Answer(status=503, body=b"{}"),
)


def test_t29_a_plugin_that_does_nothing_is_named_as_idle() -> None:
    through = {"response": response(503, b"{}"), "journal_is": {"attempts": (UNTOUCHED,)}}
    result = run(Variant.FIXED, **through)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "init()" in result.reason
    assert "main()" in result.reason
    spoke = run(Variant.FIXED, **through, logs=("[info][wasm] [x] wasm log p p#1: started\n", ""))
    assert spoke.verdict is Verdict.MISMATCH
    more = (*UNTOUCHED.headers, ("x-added", "1"))
    for change in ({"target": "/other"}, {"headers": more}, {"trailing": b"more"}):
        touched = msgspec.structs.replace(UNTOUCHED, **change)
        result = run(Variant.FIXED, **{**through, "journal_is": {"attempts": (touched,)}})
        assert result.verdict is Verdict.MISMATCH


def test_a_result_follows_again_from_what_was_recorded_of_it() -> None:
    shown = defective(KLING)
    for happens in (
        {},
        {"response": shown.response, "journal_is": {"attempts": shown.attempts}},
        {"response": NoAnswer(SILENCE)},
    ):
        result = run(Variant.BASELINE, **happens)
        read = msgspec.json.decode(msgspec.json.encode(result), type=Result)
        again = cells.conclude(KLING, CELL, Variant.BASELINE, read.observation, ADDRESS, read.alone)
        assert again == result


# --- What broke down or broke off is no observation, whatever the client got ----------------------

TRAP = (
    "[2026-11-30 07:51:07.817][9][error][wasm] [source/extensions/common/wasm/wasm_vm.cc:38] "
    "Function: proxy_on_response_headers failed: Uncaught RuntimeError: unreachable"
)
BROKE_DOWN = (
    "the plugin broke down in the gateway, whose log says: [error] Function: "
    "proxy_on_response_headers failed: Uncaught RuntimeError: unreachable"
)


@pytest.mark.parametrize("variant", Variant)
def test_a_plugin_that_broke_down_in_a_cell_makes_it_inconclusive_though_all_checks_would_hold(
    variant: Variant,
) -> None:
    assert run(variant).checks != ()
    assert inconclusive(run(variant, logs=("earlier\n", f"{TRAP}\nlater\n"))) == BROKE_DOWN


def test_a_breakdown_of_an_earlier_cell_is_none_of_this_one_as_long_as_attempts_come() -> None:
    assert run(logs=(f"{TRAP}\n", "")).verdict is Verdict.PASS


def test_after_a_breakdown_a_cell_without_an_attempt_is_inconclusive_too() -> None:
    refused = response(503, b"")
    seen: dict[str, Any] = {"response": refused, "journal_is": {"attempts": ()}}
    assert run(**seen).verdict is Verdict.MISMATCH
    assert inconclusive(run(**seen, logs=(f"{TRAP}\n", ""))) == BROKE_DOWN


def test_a_breakdown_tells_more_of_a_client_without_an_answer_than_its_silence() -> None:
    silence = NoAnswer("no response within 10 s", waited=True)
    assert inconclusive(run(response=silence, logs=("", TRAP))) == BROKE_DOWN


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"error": "the answer could not be sent whole"}, "the answer could not be sent whole"),
        ({"answered": None}, "it was not answered"),
    ],
)
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("variant", Variant)
def test_an_exchange_with_the_upstream_that_broke_off_makes_its_cell_inconclusive(
    variant: Variant, number: int, change: dict[str, Any], why: str
) -> None:
    attempts = [attempt(KLING, 1), attempt(KLING, 2)]
    attempts[number - 1] = attempt(KLING, number, **change)
    result = run(variant, journal_is={"attempts": tuple(attempts)})
    assert (
        inconclusive(result)
        == f"the exchange of attempt {number} with the upstream broke off: {why}"
    )
    # It follows from what was recorded, so that nobody can take the reason out of the record.
    without = msgspec.structs.replace(result.observation, fault="")
    assert cells.conclude(KLING, CELL, variant, without, ADDRESS) == result


# --- What the gateway did of itself is not the plugin's -------------------------------------------

WRONG: dict[str, Any] = {"response": response(500, b"Internal Server Error")}


@pytest.mark.parametrize("variant", Variant)
def test_t24_an_answer_of_the_gateway_itself_makes_its_cell_inconclusive(variant: Variant) -> None:
    assert run(variant, **WRONG).verdict is Verdict.MISMATCH
    result = run(variant, **WRONG, ends=TOO_LARGE)
    assert "response_payload_too_large" in inconclusive(result)
    assert result.ending == TOO_LARGE
    # It follows from what was recorded, so that nobody can take the reason out of the record.
    without = msgspec.structs.replace(result.observation, fault="")
    assert cells.conclude(KLING, CELL, variant, without, ADDRESS) == result


def test_who_answered_is_recorded_where_a_check_failed_and_asked_nowhere_else() -> None:
    testbed = Double(**WRONG)
    assert cells.run(testbed, KLING, CELL, Variant.FIXED).ending == VIA_UPSTREAM
    asked = [each for each in testbed.asked if each.startswith("ending")]
    assert asked == [f"ending {CELL.id}", f"ending {CELL.id_alone}"]
    assert run().ending is None


def test_where_nobody_says_who_answered_a_wrong_answer_shows_nothing() -> None:
    result = run(**WRONG, ends=None)
    assert "no line" in inconclusive(result)
    again = cells.conclude(KLING, CELL, Variant.FIXED, result.observation, ADDRESS)
    assert again == result


def test_a_plugin_s_words_in_the_access_log_are_masked() -> None:
    secret = "sk-" + "a1B2" * 8
    result = run(**WRONG, ends=Ending(flags="-", details=f"refused {secret}"))
    assert result.ending is not None
    assert secret not in result.ending.details


def test_t36_what_followed_the_answer_is_recorded_and_fails_the_cell() -> None:
    result = run(follows=b"data: usage\n\n")
    assert result.failed_checks == ("client_body",)
    assert result.response is not None
    assert result.response.trailing == b"data: usage\n\n"


def test_what_has_ended_is_told_before_what_the_plugin_logged_and_that_before_silence() -> None:
    silent: dict[str, Any] = {"response": NoAnswer(SILENCE), "logs": ("", f"{TRAP}\n")}
    assert inconclusive(run(**silent, ended=GONE)) == GONE
    assert inconclusive(run(**silent)) == BROKE_DOWN


def test_with_every_attempt_there_a_line_on_the_route_is_no_fault_of_the_testbed_s() -> None:
    assert run(logs=("", f"{ROUTE}\n")).verdict is Verdict.PASS
