"""Verification: a bundle, or a lone run, checked again from its raw observations, offline.

Nothing that was concluded is taken on trust. Every hash is made again, every verdict is reached
again by the same oracle, and what several files tell of one thing is held against each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessions.evidence.pair import archive
from sessions.evidence.record import store
from sessions.evidence.record.check_results import Findings
from sessions.evidence.verify import files, pair, reading, side
from wasm.foundation.errors import EvidenceError
from wasm.records import Variant

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CHECKS", "Findings", "of"]

# Every check there is, by its name; docs/evidence.md says which of them covers what.
CHECKS = (*files.CHECKS, reading.SCHEMAS, *side.CHECKS, *pair.CHECKS)


def of(path: Path, allowed_signers: Path | None = None) -> Findings:
    """Check a bundle's folder or .zip, or a run's folder.

    Args:
        path: The folder or the .zip.
        allowed_signers: Who may have signed it (ssh-keygen(1), ALLOWED SIGNERS).

    Raises:
        EvidenceError: There is nothing of ours at all to check.
    """
    with archive.opened(path) as root:
        if allowed_signers is not None and not allowed_signers.is_file():
            raise EvidenceError(
                f"no file of allowed signers at {allowed_signers}; expected lines such as "
                "`you@example.org ssh-ed25519 AAAA...`; name one with --allowed-signers"
            )
        if (root / store.RUN).is_file() and not (root / Variant.FIXED).is_dir():
            return _run(root, allowed_signers)
        if not any((root / variant).is_dir() for variant in Variant):
            raise EvidenceError(
                f"{path} holds neither a bundle nor a run; expected baseline/, fixed/ and "
                "comparison.json, or run.json; run `nox -s report`, or name another"
            )
        return _bundle(root, allowed_signers)


def _bundle(root: Path, allowed_signers: Path | None) -> Findings:
    found = Findings("bundle")
    if not files.check(found, root, allowed_signers):
        return found
    sides = {variant: reading.side(found, root, variant) for variant in Variant}
    told = reading.pair(found, root)
    for each in sides.values():
        if each is not None:
            side.check(found, each)
    baseline, fixed = sides[Variant.BASELINE], sides[Variant.FIXED]
    if baseline is not None and fixed is not None:
        pair.check(found, root, baseline, fixed, told)
    if told is not None:
        found.says = f"what it says is: {told.verdict}; {told.go_tests}"
    return found


def _run(root: Path, allowed_signers: Path | None) -> Findings:
    found = Findings("run")
    if files.check(found, root, allowed_signers):
        alone = reading.side(found, root, None)
        if alone is not None:
            side.check(found, alone)
            short = alone.short_of_its_claim
            found.says = (
                f"what it says is: it does not show what its variant claims: {short}"
                if short
                else f"what it says is: every cell is as declared of {alone.run.variant}"
            )
    return found
