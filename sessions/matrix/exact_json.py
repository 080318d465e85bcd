"""JSON values compared exactly, as the upstream compares them (containers/upstream/exactjson.go).

Numbers are equal as numbers: 1, 1.0 and 10e-1 are one, large ones are never rounded, true is no
number. What two readers might understand differently is no usable JSON: a key that is there
twice, bytes that are not UTF-8, NaN.
"""

from __future__ import annotations

import functools
import json
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

import msgspec

_MANY_BRACKETS = 500
# The bodies of a matrix are few and small, and come again in every repeat.
_REMEMBERED = 512
_SMALL_BYTES = 16_384


def read(data: bytes) -> Any:  # noqa: ANN401 - JSON's values, each number a Decimal
    """Parse one JSON value; it may be another caller's too, so it is not to be changed.

    Raises:
        ValueError: It is no usable JSON.
    """
    return _remembered(data) if len(data) <= _SMALL_BYTES else _read(data)


def _read(data: bytes) -> Any:  # noqa: ANN401 - likewise
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_without_repeats,
            parse_int=Decimal,
            parse_float=Decimal,
            parse_constant=_refuse,
        )
    except (RecursionError, InvalidOperation) as error:
        raise ValueError("nested too deeply, or a number too large to reason about") from error


@functools.lru_cache(_REMEMBERED)
def _remembered(data: bytes) -> Any:  # noqa: ANN401 - likewise
    return _read(data)


def exactly(value: Any) -> Any:  # noqa: ANN401 - likewise
    """Return a value of a case as :func:`read` would give it."""
    return read(msgspec.json.encode(value))


def same(one: Any, other: Any) -> bool:  # noqa: ANN401 - likewise
    """Compare two values of :func:`read`."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def shown(data: bytes) -> Any:  # noqa: ANN401 - JSON's values
    """Return a body as a record shows it: its value where a record can hold that, else its text."""
    try:
        return held(data)
    except ValueError:
        return data.decode("utf-8", "replace")


def held(data: bytes) -> Any:  # noqa: ANN401 - likewise
    """Return a body's value as a record holds it; not to be changed, likewise.

    Raises:
        ValueError: It is no usable JSON, or no record could hold it exactly.
    """
    return _remembered_held(data) if len(data) <= _SMALL_BYTES else _held(data)


@functools.lru_cache(_REMEMBERED)
def _remembered_held(data: bytes) -> Any:  # noqa: ANN401 - likewise
    return _held(data)


def _held(data: bytes) -> Any:  # noqa: ANN401 - likewise
    # A record nests it further, and is read by others: what is deep is not held.
    if data.count(b"[") + data.count(b"{") > _MANY_BRACKETS:
        raise ValueError("nested too deeply")
    try:
        value = msgspec.json.decode(data)
        exact = exactly(value)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    if not same(exact, read(data)):
        raise ValueError("not held exactly")
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object names a key twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
