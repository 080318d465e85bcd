"""What looks like a credential is masked before it is judged, and the cell fails for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sessions.matrix import cells, credentials, masking
from sessions.matrix.case import Mode
from sessions.matrix.records import Cell, Observation, Result
from tests.unit.matrix.observations import ADDRESS, KLING, attempt, response, right
from wasm.records import Variant, sha256_of

SECRET = "sk-live-0123456789abcdef"  # noqa: S105 - made up
MASK = "masked-24-characters"
CELL = Cell(case=KLING.name, mode=Mode.DIRECT, repeat=1)


def judged(seen: Observation) -> Result:
    return cells.conclude(KLING, CELL, Variant.FIXED, seen, ADDRESS)


def with_first(**changes: Any) -> Observation:
    return msgspec.structs.replace(
        right(KLING, Mode.DIRECT), attempts=(attempt(KLING, 1, **changes),)
    )


PLACES = {
    "a key's header": with_first(headers=(("authorization", f"Bearer {SECRET}"),)),
    "a header of another kind": with_first(headers=(("x-api-key", "plain-but-secret"),)),
    "a header's value": with_first(headers=(("x-debug", f"key {SECRET}"),)),
    "the host": with_first(host=f"{SECRET}.example"),
    "the path": with_first(target=f"/v1/videos?key={SECRET}"),
    "the body": with_first(body=f'{{"x": "{SECRET}"}}'.encode()),
    "a body that is no text": with_first(body=b"\xff\x00" + SECRET.encode() + b"\xfe"),
    "what followed the body": with_first(trailing=SECRET.encode()),
    "what followed the client's body": msgspec.structs.replace(
        right(KLING, Mode.DIRECT),
        response=msgspec.structs.replace(response(200, b"{}"), trailing=SECRET.encode()),
    ),
    "the client's body": msgspec.structs.replace(
        right(KLING, Mode.DIRECT), response=response(200, SECRET.encode())
    ),
}


@pytest.mark.parametrize("seen", PLACES.values(), ids=PLACES)
def test_a_credential_is_masked_wherever_it_is_and_the_cell_fails_for_it(
    seen: Observation,
) -> None:
    found = masking.masked(seen)
    text = repr(found)
    assert SECRET not in text
    assert "plain-but-secret" not in text
    assert "masked-" in text
    result = judged(found)
    assert "declared_keys" in result.failed_checks
    assert not result.as_declared
    # What is written leads to the same again.
    assert judged(result.observation) == result
    assert masking.masked(found) == found


def test_a_masked_body_has_the_digest_and_the_length_of_what_is_left() -> None:
    (first,) = masking.masked(PLACES["the body"]).attempts
    assert first.body == f'{{"x": "{MASK}"}}'.encode()
    assert first.body_bytes == len(first.body)
    assert first.body_sha256 == sha256_of(first.body)


@pytest.mark.parametrize("mode", Mode)
def test_what_holds_only_dummies_stays_as_it_is(mode: Mode) -> None:
    seen = right(KLING, mode)
    assert masking.masked(seen) == seen


def test_what_broke_an_exchange_off_is_masked_too() -> None:
    (first,) = masking.masked(with_first(error=f"got {SECRET}")).attempts
    assert first.error == f"got {MASK}"


def test_a_fault_s_sentence_is_masked_too() -> None:
    seen = msgspec.structs.replace(right(KLING, Mode.DIRECT), fault=f"got {SECRET}")
    assert masking.masked(seen).fault == f"got {MASK}"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Bearer dummy-key-a1", "Bearer dummy-key-a1"),
        (f"a {SECRET} b {SECRET}", f"a {MASK} b {MASK}"),
        ("https://me:pa55word@example.org", "https://me:masked-8-characters@example.org"),
        ("?key=abc&x=1", "?key=masked-3-characters&x=1"),
        (f"Bearer {SECRET}", f"Bearer {MASK}"),
        ("nothing of the kind", "nothing of the kind"),
    ],
)
def test_only_what_is_secret_is_masked_and_a_mask_is_none(text: str, masked: str) -> None:
    assert credentials.masked(text) == masked
    assert credentials.masked(masked) == masked
    assert [found for found in credentials.by_shape(masked) if "dummy" not in found] == []
