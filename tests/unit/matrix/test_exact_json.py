"""JSON compared exactly: what is the same value, what is none, and what a record shows."""

from __future__ import annotations

import msgspec
import pytest

from sessions.matrix import exact_json


def same(one: bytes, other: bytes) -> bool:
    return exact_json.same(exact_json.read(one), exact_json.read(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a": 1, "b": [2, 3]}', b'{"b":[2,3],"a":1}'),
        (b"1", b"1.0"),
        (b"10e-1", b"1"),
        (b"-0", b"0"),
        (b"123456789012345678901234567890", b"123456789012345678901234567890.0"),
        (b"1e400", b"10e399"),
        ("\u00e9".join('""').encode(), b'"\\u00e9"'),
    ],
)
def test_the_same_value_in_two_spellings_is_equal(one: bytes, other: bytes) -> None:
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"1", b"true"),
        (b"0", b"false"),
        (b"[1]", b"[true]"),
        (b"null", b"false"),
        (b"1", b'"1"'),
        (b"[1, 2]", b"[2, 1]"),
        (b"[1]", b"[1, 1]"),
        (b'{"a": null}', b"{}"),
        (b"{}", b"[]"),
        (b"9007199254740993", b"9007199254740992"),
        (b"0.1", b"0.1000000000000000055"),
        (b"123456789012345678901234567890", b"123456789012345678901234567891"),
    ],
)
def test_two_values_are_not_equal_though_python_or_a_float_would_say_so(
    one: bytes, other: bytes
) -> None:
    assert same(one, one)
    assert same(other, other)
    assert not same(one, other)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{} {}",
        b'{"a": 1, "a": 1}',
        b'[{"b": {"a": 1, "a": 2}}]',
        b"NaN",
        b"[-Infinity]",
        b'"\xff"',
        b"\xef\xbb\xbf{}",
        '{"a": 1}'.encode("utf-16"),
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b"1e99999999999999999999",
    ],
)
def test_what_readers_might_understand_differently_is_no_json(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        exact_json.read(body)
    assert exact_json.shown(body) == body.decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"a": [1, 2.5, null, true]}', {"a": [1, 2.5, None, True]}),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"1e400", "1e400"),
        (b'"\\ud800"', '"\\ud800"'),
        (b"0.1000000000000000055", "0.1000000000000000055"),
        (b"[" * 300 + b"]" * 300, None),
        (b"[" * 600 + b"]" * 600, "[" * 600 + "]" * 600),
    ],
)
def test_a_record_shows_the_value_or_else_the_text_and_reads_back_the_same(
    body: bytes, shown: object
) -> None:
    found = exact_json.shown(body)
    assert shown is None or found == shown
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


def test_a_value_of_a_case_is_compared_as_it_is_sent() -> None:
    assert exact_json.same(exact_json.exactly({"a": 0.1}), exact_json.read(b'{"a": 1e-1}'))
