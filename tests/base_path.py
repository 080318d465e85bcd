"""A fix for #4396 that does more than the design: a retry keeps its provider's base path, too."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from wasm.fix_4396.retry_identity import FAILOVER, HELPER, RULES, fix
from wasm.golang.codemod import Rule, inside, method

if TYPE_CHECKING:
    from pathlib import Path


def keeping_base_path(statement: str) -> tuple[Rule, ...]:
    """Return the rules of such a fix.

    Args:
        statement: What puts the base path before the path in ``$HEADERS``.
    """
    again = Rule(
        id="base-path-again",
        says="The helper applies the base path again after the transforms of the body.",
        file=FAILOVER,
        where={
            "rule": {
                "kind": "return_statement",
                "all": [
                    inside(method(HELPER)),
                    {"pattern": "return $HEADERS, $BODY, $ERR"},
                    {"pattern": "$RETURN"},
                ],
            },
            "constraints": {"HEADERS": {"not": {"regex": "^nil$"}}},
        },
        rewrite={"RETURN": f"{statement}\n$RETURN"},
        places=1,
    )
    return (*RULES, again)


def diff(root: Path, plugin: str, rules: tuple[Rule, ...]) -> str:
    """Return what rules change in a plugin, as a diff that ``git apply`` takes at the root."""
    lines: list[str] = []
    for name, content in fix(root / plugin, rules).files.items():
        path = f"{plugin}/{name}"
        before = (root / path).read_text().splitlines(keepends=True)
        after = content.decode().splitlines(keepends=True)
        lines += difflib.unified_diff(before, after, f"a/{path}", f"b/{path}")
    return "".join(lines)


OF_THE_REFERENCE = keeping_base_path("c.rebase($HEADERS)")
