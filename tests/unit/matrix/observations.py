"""Observations made by hand: what a cell shows when all is right, and what the defect shows."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from containers.exchange import Answer, Attempt, Response
from sessions.matrix import case as cases
from sessions.matrix import cells
from sessions.matrix.case import Case, Mode
from sessions.matrix.records import Cell, Observation, Result

if TYPE_CHECKING:
    from wasm.records import Variant

ADDRESS = "127.0.0.1:40001"
KLING = cases.load(glob="kling-text-to-video")[0]
CONTROL = cases.load(glob="openai-chat")[0]
DEFECT = ("retry_path", "retry_body", "client_status", "client_body")


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


def attempt(case: Case, order: int = 1, key: str | None = None, **changes: Any) -> Attempt:
    """An attempt that is all right; the first carries the first key, the second the other."""
    body = changes.pop("body", encoded(case.upstream.json))
    headers = [("content-type", "application/json")]
    key = case.keys[(order - 1) % len(case.keys)] if key is None else key
    if key:
        headers.append(("authorization", f"Bearer {key}"))
    fields: dict[str, Any] = {
        "order": order,
        "sequence": order,
        "epoch": 1,
        "received_at": "2026-01-01T00:00:00.000000001Z",
        "received_mono_ns": order,
        "method": case.upstream.method,
        "target": case.upstream.target,
        "host": "provider.example",
        "proto": "HTTP/1.1",
        "headers": tuple(headers),
        "body": body,
        "body_bytes": len(body),
        "body_sha256": hashlib.sha256(body).hexdigest(),
        "truncated": False,
        "arrived_on": ADDRESS,
        "from_": "127.0.0.1:50000",
        "step": "first",
        "matched": True,
        "unmet": (),
        "answered": Answer(status=200, body=b"{}"),
        "answered_mono_ns": order,
    }
    return Attempt(**{**fields, **changes})


def response(status: int, body: bytes) -> Response:
    digest = hashlib.sha256(body).hexdigest()
    return Response(status=status, headers=(), body=body, body_sha256=digest, seconds=0.002)


def right(case: Case, mode: Mode) -> Observation:
    """What must be seen."""
    orders = (1, 2) if mode is Mode.RETRY else (1,)
    return Observation(
        request=cells.request(case, Cell(case=case.name, mode=mode, repeat=1)),
        response=response(case.client.status, encoded(case.client.json)),
        attempts=tuple(attempt(case, order) for order in orders),
        seconds=0.01,
    )


def defective(case: Case) -> Observation:
    """What #4396 shows in mode retry: the retry goes out as Chat Completions."""
    body = encoded({"model": "up-m1", "prompt": "a paper boat on a lake"})
    return msgspec.structs.replace(
        right(case, Mode.RETRY),
        response=response(case.failure.status, encoded(case.failure.json)),
        attempts=(attempt(case, 1), attempt(case, 2, target="/v1/videos?trace=1", body=body)),
    )


def result(case: Case, mode: Mode, variant: Variant, seen: Observation, repeat: int = 1) -> Result:
    """The result that follows from an observation."""
    cell = Cell(case=case.name, mode=mode, repeat=repeat)
    seen = msgspec.structs.replace(seen, request=cells.request(case, cell))
    return cells.conclude(case, cell, variant, seen, ADDRESS)
