"""Text from outside as a reader may safely see it: nothing hidden, nothing endless. Pure.

What a person cannot see (controls, bidi marks, blanks that look like a space, marks piled up) is
named by its code point; bytes that are not UTF-8 are named by their value; what is long is cut, and
says how long it was.
"""

from __future__ import annotations

import codecs
import hashlib
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

# Printable by their category, and yet there is nothing to be seen.
_BLANK = frozenset(
    (
        *(0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F),
        *(0x2800, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)),
    )
)
_MARKS_AT_MOST = 3
_LONE_BYTES = range(0xDC80, 0xDD00)


class Piece(NamedTuple):
    """A part of a text: as it is, or named since it cannot be seen."""

    text: str
    named: bool


def pieces(text: str, *, lines: bool = False) -> Iterator[Piece]:
    """Split a text into what can be seen and the names of what cannot.

    Args:
        text: Lone surrogates stand for bytes that are not UTF-8, as ``surrogateescape`` has it.
        lines: Whether line feeds and tabs are kept; else they are named too.
    """
    seen: list[str] = []
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        kept = lines and character in "\n\t"
        if kept or (
            character.isprintable() and ord(character) not in _BLANK and marks <= _MARKS_AT_MOST
        ):
            seen.append(character)
            continue
        if seen:
            yield Piece("".join(seen), named=False)
            seen = []
        yield Piece(_name(ord(character)), named=True)
    if seen:
        yield Piece("".join(seen), named=False)


def plain(text: str, *, lines: bool = False) -> str:
    """Return a text with what cannot be seen named, as in ``abc⟨U+202E⟩``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"⟨{piece.text}⟩" if piece.named else piece.text for piece in pieces(text, lines=lines)
    )


def _name(code: int) -> str:
    return f"{code - 0xDC00:02X}" if code in _LONE_BYTES else f"U+{code:04X}"


def brief(text: str, at_most: int) -> str:
    """Cut a text from outside, saying how long it was."""
    if len(text) <= at_most:
        return text
    return f"{text[:at_most]}… ({len(text):,} characters)"


def shown(text: str, at_most: int, *, lines: bool = False) -> str:
    """Return a text with what cannot be seen named, cut to some characters with its length."""
    named = plain(text[:at_most], lines=lines)
    if len(text) <= at_most and len(named) <= at_most:
        return named
    return f"{named[:at_most]}… ({len(text):,} characters)"


class Body(NamedTuple):
    """A body as it is shown; ``note`` says what is not as it seems, if anything."""

    text: str
    note: str


def body(data: bytes, at_most: int, whole_bytes: int = 0, whole_sha256: str = "") -> Body:
    """Return a body's text, cut to some bytes.

    Args:
        data: As it was kept.
        at_most: How many bytes of it are shown.
        whole_bytes: Its length as it was sent, if only its beginning was kept.
        whole_sha256: Likewise.
    """
    whole = max(whole_bytes, len(data))
    shown = data[:at_most]
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    text = decoder.decode(shown, final=len(shown) == len(data))
    # What a cut has left of a character at the end is not shown.
    shown = shown[: len(shown) - len(decoder.getstate()[0])]
    notes = []
    if len(shown) < whole:
        digest = whole_sha256 or hashlib.sha256(data).hexdigest()
        notes.append(f"the first {len(shown):,} of {whole:,} bytes; SHA-256 of all {digest}")
    if any(ord(character) in _LONE_BYTES for character in text):
        notes.append("not UTF-8: bytes that are none are named")
    if not data:
        notes.append("empty")
    return Body(text, "; ".join(notes))
