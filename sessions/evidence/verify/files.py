"""The files: exactly those that SHA256SUMS names, each with its digest; signed; no secrets."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import msgspec

from sessions.evidence.record import redact, sealing, signing, store
from sessions.matrix import credentials
from wasm.foundation.errors import EvidenceError
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sessions.evidence.record.check_results import Check, Findings
    from sessions.evidence.verify.reading import Side

PLAIN_FILES, HASHES, SIGNATURE, SECRETS = "plain files", "hashes", "signature", "secrets"
CHECKS = (PLAIN_FILES, HASHES, SIGNATURE, SECRETS)
# What a cell carried is masked where it is judged; the fix is kept as it is.
_MASKED_ELSEWHERE = (store.RUN, store.CELLS, store.FIX)
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
        look = redact.in_patch if name.endswith(store.UNCOMMITTED) else credentials.spans
        for start, end in look(text):
            if not credentials.is_dummy(text[start:end]):
                yield f"{name} holds what looks like a credential, {end - start} characters"
    return f"{number} files, none holds what looks like a credential"


def masks(side: Side) -> Check:
    """A mask outside the cells has failed the run: a log that holds one comes of no valid run.

    Commands and variables are masked as they are recorded, and fail nothing; a cell says itself
    why it could not be observed, and pytest's report repeats that.
    """
    told = {mask for result in side.results for mask in credentials.masks(result.reason)}
    number = 0
    for name, text in _texts_of(side):
        found = [mask for mask in dict.fromkeys(credentials.masks(text)) if mask not in told]
        number += len(found)
        if found and not side.run.failure:
            yield f"{name} holds {found[0]}, for which the run must have failed, and it has not"
    return f"{number}, and the run failed for it" if number else "none outside the cells"


def _texts_of(side: Side) -> Iterator[tuple[str, str]]:
    testbed = msgspec.json.encode(side.run.testbed)
    yield f"{store.RUN}: testbed", testbed.decode()
    for path in _entries(side.folder):
        name = path.relative_to(side.folder).as_posix()
        if not path.is_file() or name in _MASKED_ELSEWHERE:
            continue
        text = path.read_bytes().decode("latin-1")
        if name == store.UNCOMMITTED:
            text = "\n".join(line for line in text.split("\n") if line.startswith("+"))
        yield name, text
