"""Markdown that GitHub renders as it was meant, whatever stands in the texts put into it. Pure.

A text from outside becomes a code span or a fenced block: in those nothing is a link, a mention, an
issue, HTML or a table's border. Only a text of plain words and figures may stand outside of them.
"""

from __future__ import annotations

import html
import re

from sessions.matrix import sanitize

# Words as ours are, check names and cells' ids among them. No colon within a word: that would be
# an address or an emoji; possessive, so that no text can make the search long.
_TAME = re.compile(r"(?:[A-Za-z0-9]++(?:_[A-Za-z0-9]++)*+|[ ,.;()'/-]|:(?= |$))*+")
_REFERENCE = re.compile(r"www\.|\bGH-\d|\b[0-9a-f]{7,}\b", re.IGNORECASE)
_TICKS = re.compile("`+")


class Written(str):
    """Markdown of our own; anything else is text from outside."""

    __slots__ = ()


def code(text: str, at_most: int) -> Written:
    """Return a text of one line as a code span; one that may stand in a table too."""
    shown = sanitize.shown(text, at_most).replace("|", "⟨U+007C⟩")
    if not shown.strip():
        return Written("(empty)" if not shown else "(blanks)")
    fence = "`" * (_longest_ticks(shown) + 1)
    edge = " " if {shown[0], shown[-1]} & {"`", " "} else ""
    return Written(f"{fence}{edge}{shown}{edge}{fence}")


def said(text: str, at_most: int) -> Written:
    """Return a sentence as prose if it is plain words and parts in backticks, else as code."""
    prose, spans = text.split("`")[::2], text.split("`")[1::2]
    tame = all(_TAME.fullmatch(part) and not _REFERENCE.search(part) for part in prose)
    if len(text) > at_most or not tame or len(prose) == len(spans) or not all(spans):
        return code(text, at_most)
    coded = [code(span, at_most) for span in spans]
    return Written("".join(part for pair in zip(prose, [*coded, ""], strict=True) for part in pair))


def block(text: str, at_most: int, language: str = "text") -> Written:
    """Return a text of any lines as a fenced block."""
    shown = sanitize.shown(text.strip("\n"), at_most, lines=True)
    fence = "`" * max(3, _longest_ticks(shown) + 1)
    return Written(f"{fence}{language}\n{shown}\n{fence}")


def folded_title(text: str, at_most: int) -> Written:
    """Return a text as it may stand in a ``<summary>``, which is HTML and no Markdown."""
    return Written(f"<code>{html.escape(sanitize.shown(text, at_most))}</code>")


def _longest_ticks(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)
