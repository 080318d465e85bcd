"""Lines of a gateway's log that say that its Wasm VM, or the plugin in it, broke down. Pure.

As Envoy 1.40 prints them, seen with a plugin made to do each. A handler that panics is recovered by
Higress' wrapper, and the request goes on without it: the client may well get what it should. What
ends Go itself (a deadlock, say) or traps (a stack overflow) leaves a VM that refuses every request
from then on. ``os.Exit`` alone leaves no line: to Envoy it is nothing to speak of.
"""

from __future__ import annotations

import re
from itertools import pairwise

# What a plugin logs stands behind a prefix of Envoy's own, so that a body or a header that a plugin
# repeats in its log is not taken for a breakdown. (One that logs line breaks can feign it, which
# only makes its run inconclusive.)
_BROKEN = re.compile(
    r"\[[^\]\n]*\]\[\d+\](?:"
    # Envoy's own: a trap, a VM or a plugin that does not load. And all that is critical.
    r"\[critical\]\[wasm\]|"
    r"\[\w+\]\[wasm\] \[[^\]\n]*\] (?:Function: \S+ failed|Wasm VM failed|Failed to load "
    r"Wasm)|"
    # The plugin's runtime: Go's last words, and a panic that Higress' wrapper has recovered from.
    r"\[\w+\]\[wasm\] \[[^\]\n]*\] wasm log[^:\n]*: (?:\[[^\]\n]*\] )*"
    r"(?:fatal error: |panic: |panicked at |recovered from panic )"
    r")"
)
_PIECE = re.compile(r"\[[^\]\n]*\]\[\d+\]\[\w+\]\[wasm\] \[[^\]\n]*\] wasm log[^:\n]*: ")
_WHEN_AND_WHERE = re.compile(r"^\[[^\]]*\]\[\d+\](\[\w+\])\[wasm\](?: \[[^\]]*\])?")
_BEGUN = ("fatal error: ", "panic: ")
_SHOWN_AT_MOST = 300


def first(log: str) -> str:
    """Return the first line that says so, cut where it is long; empty when none does."""
    lines = log.splitlines()
    for line, following in pairwise([*lines, ""]):
        if _BROKEN.match(line):
            said = _whole(line, following)
            return said if len(said) <= _SHOWN_AT_MOST else f"{said[:_SHOWN_AT_MOST]}..."
    return ""


def _whole(line: str, following: str) -> str:
    """Return Go's last words with what follows them: it writes them in pieces, a line each."""
    if line.endswith(_BEGUN):
        return line + _PIECE.sub("", following)
    return line


def said_by(line: str) -> str:
    """Return the clause that tells of such a line."""
    said = _WHEN_AND_WHERE.sub(r"\1", line.strip())
    return f"the plugin broke down in the gateway, whose log says: {said}"
