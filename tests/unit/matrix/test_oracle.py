"""The oracle: exactly the right checks fail, whatever single thing is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from sessions.matrix import oracle, verdict
from sessions.matrix.case import Case, Mode
from sessions.matrix.checks import CheckName, names_for
from tests.unit.matrix.observations import (
    ADDRESS,
    CONTROL,
    DEFECT,
    KLING,
    attempt,
    defective,
    encoded,
    response,
    right,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from containers.exchange import Attempt
    from sessions.matrix.checks import Check
    from sessions.matrix.records import Observation

BOTH = (attempt(KLING, 1), attempt(KLING, 2))


def judged(seen: Observation, mode: Mode = Mode.RETRY, case: Case = KLING) -> tuple[Check, ...]:
    assert seen.response is not None
    return oracle.judge(case, mode, seen.attempts, seen.response, ADDRESS)


def failed(seen: Observation, mode: Mode = Mode.RETRY, case: Case = KLING) -> set[str]:
    return set(verdict.failed(judged(seen, mode, case)))


def seen(mode: Mode = Mode.RETRY, **changes: Any) -> Observation:
    return msgspec.structs.replace(right(KLING, mode), **changes)


def with_attempt(order: int, **changes: Any) -> Observation:
    """All right, save one thing of one attempt in mode retry."""
    attempts = [attempt(KLING, each, **(changes if each == order else {})) for each in (1, 2)]
    return seen(attempts=tuple(attempts))


def with_retry(**changed: Any) -> Observation:
    return seen(attempts=(BOTH[0], msgspec.structs.replace(BOTH[1], **changed)))


def with_header(attempt: Attempt, name: str, value: str = "x") -> Attempt:
    return msgspec.structs.replace(attempt, headers=(*attempt.headers, (name, value)))


@pytest.mark.parametrize("case", [KLING, CONTROL], ids=lambda case: case.name)
@pytest.mark.parametrize("mode", Mode)
def test_every_check_holds_when_all_is_right(case: Case, mode: Mode) -> None:
    checks = judged(right(case, mode), mode, case)
    assert tuple(check.name for check in checks) == names_for(retry=mode is Mode.RETRY)
    assert len(checks) == (14 if mode is Mode.RETRY else 9)
    assert all(check.holds for check in checks)


def test_which_key_came_first_does_not_matter() -> None:
    assert (
        failed(seen(attempts=(attempt(KLING, 1, "dummy-key-b"), attempt(KLING, 2, "dummy-key-a"))))
        == set()
    )


OTHER_BODY = encoded({**KLING.upstream.json, "model_name": "m1"})
FLIPS: dict[str, tuple[Callable[[], Observation], set[str]]] = {
    "first method": (lambda: with_attempt(1, method="GET"), {"first_method"}),
    "first path": (lambda: with_attempt(1, target="/v1/videos/text2video"), {"first_path"}),
    "first body": (lambda: with_attempt(1, body=OTHER_BODY), {"first_body"}),
    "first without a key": (lambda: with_attempt(1, key=""), {"first_key"}),
    "first with a key not declared": (
        lambda: with_attempt(1, key="dummy-key-c"),
        {"first_key", "declared_keys"},
    ),
    "first arrives elsewhere": (lambda: with_attempt(1, arrived_on="127.0.0.1:2"), {"arrival"}),
    "retry's method": (lambda: with_attempt(2, method="PUT"), {"retry_method"}),
    "retry's path": (lambda: with_attempt(2, target="/v1/chat/completions"), {"retry_path"}),
    "retry without the query": (
        lambda: with_attempt(2, target="/v1/videos/text2video"),
        {"retry_path"},
    ),
    "retry's body": (lambda: with_attempt(2, body=OTHER_BODY), {"retry_body"}),
    "retry without a body": (lambda: with_attempt(2, body=b""), {"retry_body"}),
    "retry with another content type": (
        lambda: with_retry(headers=(*BOTH[1].headers, ("content-type", "text/plain"))),
        {"retry_headers"},
    ),
    "retry without a header of the first's": (
        lambda: seen(attempts=(with_header(BOTH[0], "x-of-provider"), BOTH[1])),
        {"retry_headers"},
    ),
    "retry to another host": (lambda: with_retry(host="other.example"), {"retry_headers"}),
    "retry with the same key": (lambda: with_attempt(2, key="dummy-key-a"), {"retry_key"}),
    "retry without a key": (lambda: with_attempt(2, key=""), {"retry_key"}),
    "retry with a key not declared": (
        lambda: with_attempt(2, key="dummy-key-c"),
        {"retry_key", "declared_keys"},
    ),
    "retry arrives elsewhere": (lambda: with_attempt(2, arrived_on="10.0.0.1:443"), {"arrival"}),
    "client status": (
        lambda: seen(response=response(201, encoded(KLING.client.json))),
        {"client_status"},
    ),
    "client body": (lambda: seen(response=response(200, b"{}")), {"client_body"}),
    "one attempt more": (
        lambda: seen(attempts=(*BOTH, attempt(KLING, 3))),
        {"attempt_count"},
    ),
    "one more, with a key not declared": (
        lambda: seen(attempts=(*BOTH, attempt(KLING, 3, "dummy-key-c"))),
        {"attempt_count", "declared_keys"},
    ),
    "no retry": (
        lambda: seen(attempts=BOTH[:1]),
        {"attempt_count", "retry_key", "retry_method", "retry_path", "retry_body", "retry_headers"},
    ),
    "no attempt": (
        lambda: seen(attempts=()),
        {"attempt_count", "retry_headers"}
        | {
            f"{which}_{part}"
            for which in ("first", "retry")
            for part in ["key", "method", "path", "body"]
        },
    ),
}


@pytest.mark.parametrize(("flip", "checks"), FLIPS.values(), ids=FLIPS)
def test_exactly_the_right_checks_fail_when_one_thing_is_wrong(
    flip: Callable[[], Observation], checks: set[str]
) -> None:
    assert failed(flip()) == checks


def test_a_retry_in_mode_direct_is_one_attempt_too_many() -> None:
    assert failed(seen(Mode.DIRECT, attempts=BOTH), Mode.DIRECT) == {"attempt_count"}


def test_the_defect_fails_exactly_the_retry_s_path_and_body_and_what_the_client_gets() -> None:
    assert verdict.failed(judged(defective(KLING))) == DEFECT


def test_with_one_key_alone_a_retry_can_never_have_another() -> None:
    case = msgspec.structs.replace(KLING, keys=["dummy-key-a"])
    both = seen(attempts=(attempt(KLING, 1), attempt(KLING, 2, "dummy-key-a")))
    assert failed(both, case=case) == {"retry_key"}


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("x-api-key", "hunter2"),
        ("x-goog-api-key", "hunter2"),
        ("proxy-authorization", "Basic hunter2"),
        ("cookie", "session=hunter2"),
    ],
)
def test_a_second_credential_of_any_kind_is_not_declared(header: str, value: str) -> None:
    retry = BOTH[1]
    more = msgspec.structs.replace(retry, headers=(*retry.headers, (header, value)))
    assert failed(seen(attempts=(BOTH[0], more))) == {"declared_keys"}


def test_two_authorizations_are_no_key_at_all() -> None:
    retry = BOTH[1]
    headers = (*retry.headers, ("authorization", "Bearer hunter2"))
    more = msgspec.structs.replace(retry, headers=headers)
    assert failed(seen(attempts=(BOTH[0], more))) == {"declared_keys", "retry_key"}


def test_its_own_key_in_a_second_header_for_credentials_is_declared() -> None:
    assert failed(with_retry(headers=(*BOTH[1].headers, ("x-api-key", "dummy-key-b")))) == set()


DONE, DONE_WITH = response(200, encoded(KLING.client.json)), "Bearer dummy-key-a"
LEAKS: dict[str, tuple[Observation, str]] = {
    "the first key, in a header for credentials": (
        with_retry(headers=(*BOTH[1].headers, ("x-api-key", "dummy-key-a"))),
        "dummy-key-a in attempt 2",
    ),
    "its own key, in another header": (
        with_retry(headers=(*BOTH[1].headers, ("x-debug", "dummy-key-b"))),
        "dummy-key-b in attempt 2",
    ),
    "a response's header": (
        seen(response=msgspec.structs.replace(DONE, headers=(("x-used-key", DONE_WITH),))),
        "dummy-key-a in the response",
    ),
    "the name of a response's header": (
        seen(response=msgspec.structs.replace(DONE, headers=(("x-dummy-key-a", "1"),))),
        "dummy-key-a in the response",
    ),
    "the name of an attempt's header": (
        with_retry(headers=(*BOTH[1].headers, ("x-dummy-key-b", "1"))),
        "dummy-key-b in attempt 2",
    ),
}


@pytest.mark.parametrize(("leaking", "told"), LEAKS.values(), ids=LEAKS)
def test_a_declared_key_where_it_must_not_be_has_leaked(leaking: Observation, told: str) -> None:
    check = next(check for check in judged(leaking) if not check.holds)
    assert check.name == "declared_keys"
    assert check.actual[-1] == told


@pytest.mark.parametrize("place", ["target", "body", "host"])
def test_a_declared_key_in_an_attempt_s_path_body_or_host_has_leaked(place: str) -> None:
    value = b'"dummy-key-b"' if place == "body" else "/dummy-key-b"
    assert "declared_keys" in failed(with_retry(**{place: value}))


@pytest.mark.parametrize(
    "name",
    [
        *("content-length", "transfer-encoding", "accept", "user-agent", "x-request-id"),
        *("x-forwarded-proto", "x-envoy-internal", "x-envoy-expected-rq-timeout-ms"),
    ],
)
def test_what_is_not_the_providers_may_differ_in_a_retry(name: str) -> None:
    assert failed(seen(attempts=(BOTH[0], with_header(BOTH[1], name)))) == set()
    assert failed(seen(attempts=(with_header(BOTH[0], name), BOTH[1]))) == set()


def test_a_header_that_is_repeated_must_be_so_in_the_retry() -> None:
    once, twice = (with_header(each, "x-tag", "1") for each in BOTH)
    assert failed(seen(attempts=(once, twice))) == set()
    assert failed(seen(attempts=(once, with_header(twice, "x-tag", "1")))) == {"retry_headers"}


def test_a_body_in_another_order_is_the_same() -> None:
    backwards = dict(reversed(KLING.upstream.json.items()))
    assert encoded(backwards) != encoded(KLING.upstream.json)
    assert failed(with_attempt(2, body=encoded(backwards))) == set()


@pytest.mark.parametrize(
    ("wanted", "body", "holds"),
    [
        ({"n": 1}, b'{"n": 1.0}', True),
        ({"n": 1}, b'{"n": true}', False),
        ({"n": True}, b'{"n": 1}', False),
        ({"n": 1}, b'{"n": 1, "n": 1}', False),
        ({"n": 1}, b"n=1", False),
        ({"n": 1}, b'{"n": 1} ', True),
        ({"n": 1}, b'{"n": 1}}', False),
        ({"n": 2**70}, str({"n": 2**70}).replace("'", '"').encode(), True),
        ({"n": 2**70}, str({"n": 2**70 + 1}).replace("'", '"').encode(), False),
        ({"n": 0.1}, b'{"n": 0.1}', True),
        ({"n": []}, b'{"n": {}}', False),
    ],
)
def test_bodies_are_compared_as_exact_json(wanted: Any, body: bytes, holds: bool) -> None:  # noqa: FBT001
    answer = msgspec.structs.replace(KLING.client, json=wanted)
    case = msgspec.structs.replace(KLING, client=answer)
    found = failed(seen(response=response(200, body)), case=case)
    assert found == (set() if holds else {"client_body"})


def test_a_check_says_what_was_expected_and_what_was_found() -> None:
    checks = {check.name: check for check in judged(defective(KLING))}
    path, key = checks[CheckName.RETRY_PATH], checks[CheckName.RETRY_KEY]
    assert (path.expected, path.actual) == ("/v1/videos/text2video?trace=1", "/v1/videos?trace=1")
    assert (key.expected, key.actual) == (["dummy-key-b"], "dummy-key-b")
    body = checks[CheckName.CLIENT_BODY]
    assert body.actual == {"code": 1303, "message": "busy"}


def test_t36_bytes_beyond_the_end_of_the_answer_fail_its_body_and_are_shown() -> None:
    observed = right(KLING, Mode.RETRY)
    assert observed.response is not None
    longer = msgspec.structs.replace(observed.response, trailing=b"data: usage\n\n" + b"x" * 90)
    checks = judged(msgspec.structs.replace(observed, response=longer))
    (body,) = [check for check in checks if not check.holds]
    assert body.name is CheckName.CLIENT_BODY
    assert body.actual["body"] == KLING.client.json
    assert body.actual["beyond its end"].startswith("103 bytes, the first: data: usage\n\nxx")
    assert len(body.actual["beyond its end"]) < 100


@pytest.mark.parametrize("number", [1, 2])
def test_t36_bytes_beyond_the_end_of_an_attempt_fail_its_body(number: int) -> None:
    attempts = [*BOTH]
    attempts[number - 1] = msgspec.structs.replace(attempts[number - 1], trailing=b" more")
    assert failed(seen(attempts=tuple(attempts))) == {f"{('first', 'retry')[number - 1]}_body"}


def test_a_missing_attempt_is_said_to_be_missing() -> None:
    checks = {check.name: check for check in judged(seen(attempts=BOTH[:1]))}
    assert checks[CheckName.RETRY_BODY].actual == "no such attempt"
    assert checks[CheckName.RETRY_KEY].expected == ["dummy-key-b"]


def test_the_oracle_is_pure() -> None:
    assert judged(defective(KLING)) == judged(defective(KLING))
