"""The files: exactly those that SHA256SUMS names, each with its digest; signed; no secrets."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from sessions.evidence import sealing, signing, store
from sessions.matrix import credentials
from wasm.errors import EvidenceError
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sessions.evidence.verification.findings import Check, Findings

PLAIN_FILES, HASHES, SIGNATURE, SECRETS = "plain files", "hashes", "signature", "secrets"
CHECKS = (PLAIN_FILES, HASHES, SIGNATURE, SECRETS)
_ENCODED = re.compile(r'"(body_base64|content)": ?"[A-Za-z0-9+/=]*"')


def check(found: Findings, root: Path, allowed_signers: Path | None) -> bool:
    """Make the checks of files; say whether anything can be read at all."""
    if not found.look(PLAIN_FILES, "", lambda: _plain(root)):
        return False
    for part in (root, *(root / variant for variant in Variant)):
        about = "" if part == root else part.name
        if part == root or part.is_dir():
            found.look(HASHES, about, lambda part=part: sealing.problems(part))  # type: ignore[misc]
    found.look(SIGNATURE, "", lambda: _signature(root, allowed_signers))
    found.look(SECRETS, "", lambda: _secrets(root))
    return True


def _plain(root: Path) -> Check:
    """Links could lead anywhere, pipes could be waited for for ever: neither is followed."""
    number = 0
    for path in _entries(root):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            yield f"{name} is a link"
        elif not path.is_file() and not path.is_dir():
            yield f"{name} is no plain file"
        number += path.is_file()
    return f"{number} files, none of them a link"


def _entries(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root, followlinks=False):
        for name in sorted((*folders, *names)):
            yield root.__class__(folder) / name


def _signature(root: Path, allowed_signers: Path | None) -> Check:
    if not (root / store.SIGNATURE).is_file():
        if allowed_signers is None:
            return "nobody has signed this: hashes alone do not say who wrote it"
        yield f"{store.SIGNATURE} is missing: nobody has signed this"
        return ""
    try:
        if allowed_signers is None:
            key = signing.key_of(root)
            return f"made with {key}; whose key that is was not asked (--allowed-signers)"
        return f"by {signing.signer(root, allowed_signers)}"
    except EvidenceError as error:
        yield error.sentence
        return ""


def _secrets(root: Path) -> Check:
    """No file holds what looks like a credential; bodies are looked at where they are read.

    The fix is kept as it is, or it would be another patch, and is to be published anyway. Of
    uncommitted changes only what they add is the author's own.
    """
    number = 0
    for path in _entries(root):
        name = path.relative_to(root).as_posix()
        if not path.is_file() or name.endswith(store.FIX):
            continue
        number += 1
        text = _ENCODED.sub("", path.read_bytes().decode("latin-1"))
        if name.endswith(store.UNCOMMITTED):
            text = "\n".join(line for line in text.split("\n") if line.startswith("+"))
        for credential in credentials.by_shape(text):
            if not credentials.is_dummy(credential):
                yield f"{name} holds what looks like a credential, {len(credential)} characters"
    return f"{number} files, none holds what looks like a credential"
