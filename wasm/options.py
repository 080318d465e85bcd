"""The options that say where a variant comes from; the same wherever they are taken.

Data, not a parser: Nox sessions, ``python -m wasm`` and pytest each add them to their own.
Standard library only, since Nox's own environment has nothing else.
"""

from __future__ import annotations

from typing import Any

from wasm.foundation import paths
from wasm.golang import goversion

SOURCE_OPTIONS: dict[str, dict[str, Any]] = {
    "--source": {
        "default": paths.REFERENCE,
        "metavar": "WHERE",
        "type": paths.source,
        "help": "the bundled `reference`, a path to a git checkout, or a git URL (reference)",
    },
    "--plugin": {
        "default": None,
        "metavar": "DIR",
        "help": "the plugin's folder in the source (plugins/wasm-go/extensions/ai-proxy)",
    },
    "--baseline-ref": {
        "default": None,
        "metavar": "REF",
        "help": "commit of the baseline (HEAD with the work tree's uncommitted changes)",
    },
    "--fixed-ref": {
        "default": None,
        "metavar": "REF",
        "help": "commit of the fixed variant (the built-in fix for #4396, on the baseline)",
    },
    "--fixed-patch": {
        "default": None,
        "metavar": "FILE",
        "type": paths.named,
        "help": "or a patch on the baseline, as `git diff` writes it at the repository's root",
    },
    "--fixed-worktree": {
        "action": "store_true",
        "help": "or the checkout as it lies: HEAD with its uncommitted changes; the baseline is "
        "then --baseline-ref",
    },
    "--go": {
        "default": None,
        "metavar": "VERSION",
        "type": goversion.named,
        "help": "Go version for both variants (that of go.mod's toolchain line, else of the "
        "source's builder image, else ours)",
    },
}

UNIT_OPTIONS: dict[str, dict[str, Any]] = {
    "--plain": {
        "action": "store_true",
        "help": "test on the SDK as it is, which takes ai-proxy up to a quarter of an hour",
    },
}
"""How Go's own tests are run."""
