"""Go's own tests on the very module, as a bundle takes them in (docs/evidence.md, 13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sessions.evidence import folders
from sessions.evidence.records import SuiteSummary, UnitSummary
from sessions.matrix import credentials
from wasm.records import Variant, sha256_of

if TYPE_CHECKING:
    from pathlib import Path

    from wasm.unit import UnitRun

NONE = UnitSummary(
    missing=(
        "no results of Go's own tests for this very module were at hand; `nox -s unit` on the "
        "variant makes them, `nox -s report` takes them in"
    )
)


def name(variant: Variant) -> str:
    """Return where a bundle has the results of a variant."""
    return f"unit/{variant}.json"


def latest(evidence: Path, variant: Variant, module_sha256: str) -> bytes | None:
    """Return the latest results for the very module of a run, as a bundle holds them, or None."""
    link = folders.latest(evidence, f"unit-{variant}")
    found = link / "unit.json" if link.is_dir() else link
    try:
        # The lines of a failing test may show what looks like a credential.
        content = credentials.masked(found.read_text("utf-8")).encode()
        unit = read(content)
    except (OSError, ValueError):
        return None
    return content if (unit.variant, unit.module_sha256) == (variant, module_sha256) else None


def read(content: bytes) -> UnitRun:
    """Read the results of ``nox -s unit``.

    Raises:
        ValueError: They are not what it writes.
    """
    # It brings all that runs Go along, which no other evidence needs.
    from wasm.unit import UnitRun  # noqa: PLC0415

    try:
        return msgspec.json.decode(content, type=UnitRun)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def summary(variant: Variant, content: bytes | None) -> UnitSummary:
    """Return what a comparison says of a variant's results.

    Raises:
        ValueError: They are not what ``nox -s unit`` writes.
    """
    if content is None:
        return NONE
    unit = read(content)
    return UnitSummary(
        file=name(variant),
        sha256=sha256_of(content),
        new_in_vet=len(unit.vet),
        suites=tuple(
            SuiteSummary(
                command=" ".join(suite.command),
                passed=suite.passed,
                failed=len(suite.failed),
                skipped=len(suite.skipped),
                skipped_in_wasm=len(suite.skipped_in_wasm),
                problem=suite.problem,
            )
            for suite in unit.suites
        ),
    )
