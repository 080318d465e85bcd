"""What differs between an expected and an actual value: for a reader, so short that it is read.

JSON bodies are laid out with sorted keys and plain numbers first, since order and notation are
none of what the oracle compares. Pure.
"""

from __future__ import annotations

import difflib
from decimal import Decimal
from itertools import takewhile
from operator import eq
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from sessions.matrix import exact_json, sanitize

if TYPE_CHECKING:
    from collections.abc import Sequence

_PARSED_BYTES = 1_000_000
_TEXT_BYTES = 2_000
_COMPARED_LINES = 60
_CONTEXT_LINES = 3
_LINE = 240
_BEFORE = 40
_DIGITS = 28
_PLAIN_JSON = msgspec.json.Encoder(decimal_format="number", order="sorted")


class Line(NamedTuple):
    """A line of a difference: its sign (space, - expected, + actual, … left out) and its parts."""

    sign: str
    before: str
    differs: str
    after: str


class Difference(NamedTuple):
    """What differs, line by line; ``note`` says what is not as it seems, if anything."""

    lines: tuple[Line, ...]
    note: str


def apart(one: str, other: str, at_most: int, gap: str = "...") -> tuple[str, str]:
    """Cut two texts so that the place where they differ first is seen in both.

    A text that is not too long stays as it is. Two long ones that begin alike lose what they share,
    but for a little of it.
    """
    if max(len(one), len(other)) <= at_most:
        return one, other
    shared, _ = _same_ends(one, other)
    start = 0 if shared < at_most - _BEFORE else shared - _BEFORE
    return _window(one, start, at_most, gap), _window(other, start, at_most, gap)


def _window(text: str, start: int, at_most: int, gap: str) -> str:
    before = gap if start else ""
    after = gap if len(text) > start + at_most else ""
    return f"{before}{text[start : start + at_most]}{after}"


def of_texts(expected: str, actual: str) -> Difference:
    """Compare two texts of one line each, such as paths."""
    return Difference(tuple(_pair(expected, actual)), "")


def of_bodies(expected: Any, actual: bytes) -> Difference:  # noqa: ANN401 - a case's value
    """Compare the JSON value that a body had to be with the body that came."""
    wanted = laid_out(msgspec.json.encode(expected)) or ""
    found = laid_out(actual)
    note = "keys are sorted"
    if found is None:
        text, cut = sanitize.body(actual, _TEXT_BYTES)
        note = "; ".join(part for part in (f"the actual body is {_no_json(actual)}", cut) if part)
        found = "\n".join(_ended(line) for line in text.split("\n"))
    if found == wanted:
        return Difference((), "the same, once laid out")
    return Difference(tuple(_lines(wanted.split("\n"), found.split("\n"))), note)


def laid_out(data: bytes) -> str | None:
    """Return a JSON body with sorted keys, a value a line; None if it is no usable JSON."""
    if len(data) > _PARSED_BYTES:
        return None
    try:
        value = plain_numbers(exact_json.read(data))
        return msgspec.json.format(_PLAIN_JSON.encode(value), indent=2).decode()
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None


def _no_json(data: bytes) -> str:
    if not data:
        return "empty"
    return "too long to lay out" if len(data) > _PARSED_BYTES else "no usable JSON"


def plain_numbers(value: Any) -> Any:  # noqa: ANN401 - JSON's values
    """Return a value of ``exact_json`` with whole numbers as such: 1.0 and 1e0 are 1, too."""
    if isinstance(value, dict):
        return {key: plain_numbers(below) for key, below in value.items()}
    if isinstance(value, list):
        return [plain_numbers(below) for below in value]
    if isinstance(value, Decimal):
        digits = len(value.as_tuple().digits)
        # Beyond that, laying it out anew would round it.
        if max(digits, abs(value.adjusted())) < _DIGITS:
            return int(value) if value == value.to_integral_value() else value.normalize()
    return value


def _lines(expected: list[str], actual: list[str]) -> list[Line]:
    """Compare line by line; what is the same far from any difference is left out."""
    head, tail = _same_ends(expected, actual)
    lines = _context(expected[:head], at_end=True)
    lines += _changed(expected[head : len(expected) - tail], actual[head : len(actual) - tail])
    return lines + _context(expected[len(expected) - tail :], at_end=False)


def _context(same: list[str], *, at_end: bool) -> list[Line]:
    kept = same[-_CONTEXT_LINES:] if at_end else same[:_CONTEXT_LINES]
    lines = [Line(" ", _cut(text), "", "") for text in kept]
    left_out = len(same) - len(kept)
    if left_out:
        gap = _left_out(left_out, "the same")
        lines = [gap, *lines] if at_end else [*lines, gap]
    return lines


def _changed(expected: list[str], actual: list[str]) -> list[Line]:
    one, other = expected[:_COMPARED_LINES], actual[:_COMPARED_LINES]
    lines: list[Line] = []
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    for what, i, j, k, m in matcher.get_opcodes():
        if what == "equal":
            lines += [Line(" ", _cut(text), "", "") for text in one[i:j]]
        elif j - i == m - k:
            pairs = [_pair(*pair) for pair in zip(one[i:j], other[k:m], strict=True)]
            lines += [pair[0] for pair in pairs] + [pair[1] for pair in pairs]
        else:
            lines += [Line("-", _cut(text), "", "") for text in one[i:j]]
            lines += [Line("+", _cut(text), "", "") for text in other[k:m]]
    for each, which in ((expected, "expected"), (actual, "actual")):
        if len(each) > _COMPARED_LINES:
            lines.append(_left_out(len(each) - _COMPARED_LINES, which))
    return lines


def _left_out(count: int, which: str) -> Line:
    return Line("…", f"{count:,} more line{'' if count == 1 else 's'}, {which}", "", "")


def _pair(expected: str, actual: str) -> tuple[Line, Line]:
    """Give two lines with the part that differs marked; long ones around that part."""
    head, tail = _same_ends(expected, actual)
    return _marked("-", expected, head, tail), _marked("+", actual, head, tail)


def _same_ends(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """Return how much two sequences share at their starts, and of the rest at their ends."""
    head = sum(takewhile(bool, map(eq, one, other)))
    rest = one[head:], other[head:]
    return head, sum(takewhile(bool, map(eq, *map(reversed, rest))))


def _marked(sign: str, text: str, head: int, tail: int) -> Line:
    end = len(text) - tail
    before, differs, after = text[:head], text[head:end], text[end:]
    if len(text) > _LINE:
        before = f"…{before[-_BEFORE:]}" if head > _BEFORE else before
        differs = _cut(differs)
        after = f"{after[:_BEFORE]}…" if len(after) > _BEFORE else after
    return Line(sign, before, differs, after)


def _ended(line: str) -> str:
    return line if len(line) <= _LINE else f"{line[: _LINE - 1]}…"


def _cut(text: str) -> str:
    return sanitize.brief(text, _LINE)
