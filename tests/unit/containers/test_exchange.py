"""How the upstream's journal is read: bytes as bytes, repeated headers repeated."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from containers.exchange import Answer, Attempt, Journal, Request

BODY = bytes(range(256))


def attempt(**other: Any) -> dict[str, Any]:
    """An attempt as the upstream writes it (containers/upstream/README.md)."""
    return {
        "order": 1,
        "sequence": 7,
        "epoch": 3,
        "received_at": "2026-01-02T03:04:05.678901234Z",
        "received_mono_ns": 12345678901,
        "method": "POST",
        "target": "/v1/videos/text2video?trace=1",
        "host": "api.example",
        "proto": "HTTP/1.1",
        "headers": [
            ["authorization", "Bearer dummy-key-a"],
            ["x-twice", "one"],
            ["x-twice", "two"],
        ],
        "body_base64": base64.b64encode(BODY).decode(),
        "body_bytes": 256,
        "body_sha256": "40aff2e9d2d8922e47afd4648e6967497158785fbd1da870e7110266bf944880",
        "truncated": False,
        "trailing_base64": "",
        "arrived_on": "127.0.0.1:4000",
        "from": "127.0.0.1:5000",
        "step": "first",
        "matched": True,
        "unmet": [],
        "answered": {
            "status": 503,
            "headers": [["set-cookie", "a"], ["set-cookie", "b"]],
            "body_base64": "e30=",
            "action": "",
        },
        "answered_mono_ns": 12345678999,
    } | other


def journal(**other: Any) -> Journal:
    data = {
        "epoch": 3,
        "in_flight": 0,
        "complete": True,
        "dropped": 0,
        "malformed": 0,
        "late": [],
        "attempts": [attempt()],
    }
    return msgspec.json.decode(json.dumps(data | other), type=Journal)


def test_an_attempt_is_read_as_the_upstream_wrote_it() -> None:
    (read,) = journal().attempts
    assert read.body == BODY
    assert read.headers[1:] == (("x-twice", "one"), ("x-twice", "two"))
    assert read.from_ == "127.0.0.1:5000"
    assert read.answered == Answer(
        status=503, headers=(("set-cookie", "a"), ("set-cookie", "b")), body=b"{}"
    )
    assert read.error == ""


def test_reading_what_was_written_gives_the_same() -> None:
    (read,) = journal().attempts
    assert msgspec.json.decode(msgspec.json.encode(read), type=Attempt) == read
    assert json.loads(msgspec.json.encode(read)) == attempt(error="")


def test_the_first_value_of_a_repeated_header_is_what_a_name_gives() -> None:
    (read,) = journal().attempts
    assert read.header("x-twice") == "one"
    assert read.header("x-absent") is None


def test_an_attempt_under_way_has_no_answer() -> None:
    (read,) = journal(attempts=[attempt(answered=None, answered_mono_ns=0)]).attempts
    assert read.answered is None


def test_late_attempts_are_kept_apart() -> None:
    read = journal(late=[attempt(epoch=2, error="the client went away")], complete=False)
    assert [each.epoch for each in read.late] == [2]
    assert read.late[0].error == "the client went away"
    assert not read.complete


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ([["authorization", "Bearer dummy-key-a"]], "dummy-key-a"),
        ([["authorization", "bearer dummy-key-b"]], "dummy-key-b"),
        ([["authorization", "Basic dummy-key-a"]], None),
        ([["authorization", "Bearer "]], None),
        ([["authorization", "Bearer"]], None),
        ([["authorization", ""]], None),
        ([["x-authorization", "Bearer dummy-key-a"]], None),
        ([], None),
    ],
)
def test_the_key_is_the_bearer_credential_and_nothing_else(
    headers: list[list[str]], key: str | None
) -> None:
    (read,) = journal(attempts=[attempt(headers=headers)]).attempts
    assert read.key == key


@pytest.mark.parametrize(
    "broken",
    [{"attempts": [attempt(body_base64="?")]}, {"attempts": [{"order": 1}]}, {"epoch": "3"}],
)
def test_what_is_no_journal_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        journal(**broken)


def test_a_request_body_is_base64_in_json() -> None:
    request = Request(method="POST", target="/", headers=(("a", "b"),), body=b"\x00\xff")
    assert json.loads(msgspec.json.encode(request)) == {
        "method": "POST",
        "target": "/",
        "headers": [["a", "b"]],
        "body_base64": "AP8=",
        "body_sha256": "",
    }
