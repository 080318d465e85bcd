"""Where two JSON values differ, each place in a clause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from sessions.matrix import text_diff

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHOWN_AT_MOST = 60
_ABSENT = object()


def differences(found: Any, expected: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401 - JSON's values
    """Give every place where a value is not the expected one."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in dict.fromkeys((*found, *expected)):
            below = f"{path}.{key}" if path else str(key)
            yield from differences(found.get(key, _ABSENT), expected.get(key, _ABSENT), below)
    elif isinstance(found, list) and isinstance(expected, list):
        for number in range(max(len(found), len(expected))):
            one, other = (v[number] if number < len(v) else _ABSENT for v in (found, expected))
            yield from differences(one, other, f"{path}[{number}]")
    elif type(found) is not type(expected) or found != expected:
        shown = text_diff.apart(_text(found), _text(expected), _SHOWN_AT_MOST)
        yield f"{path or 'it'} is {shown[0]}, expected {shown[1]}"


def _text(value: Any) -> str:  # noqa: ANN401 - likewise
    if value is _ABSENT:
        return "not there"
    return msgspec.json.encode(value).decode()
