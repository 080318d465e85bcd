"""A bundle: two runs compared, with all that a stranger needs to check the comparison again.

baseline/ fixed/    the runs, unchanged
unit/               Go's own tests on the very modules, where they are at hand
schemas/            the records' JSON Schemas
comparison.json     the verdict, and what it follows from
statement.json      the same as an in-toto Statement
report.html .md     drawn from the above
SHA256SUMS          over all of it, written last; and SHA256SUMS.sig where it was signed
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from containers.records import Cleanup
from sessions.evidence.pair import archive, schemas, statement, unit_results
from sessions.evidence.pair.compare import compare
from sessions.evidence.record import folders, sealing, signing, store
from sessions.evidence.record.records import Comparison, Run, UnitState
from sessions.evidence.report import html, log_excerpts, markdown
from sessions.matrix.records import Result
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPARISON = "comparison.json"
STATEMENT = "statement.json"
# Every report for people, by its name: drawn from the comparison, both runs and their logs alone,
# so that `verify` can draw it again.
REPORTS = {html.NAME: html.render, markdown.NAME: markdown.render}


@dataclass(frozen=True)
class Side:
    """One variant's run, as a bundle holds it; ``unit`` is why there are no results, if so."""

    run: Run
    results: tuple[Result, ...]
    unit: bytes | UnitState
    cleanup: Cleanup


@dataclass(frozen=True)
class Made:
    """A bundle that was made: its folder, what it says, and its archive with that one's digest."""

    folder: Path
    comparison: Comparison
    archive: Path
    archive_sha256: str


def make(evidence: Path, runs: Mapping[Variant, Path], key: Path | None) -> Made:
    """Compare two runs' folders and write the bundle and its archive.

    Args:
        evidence: The evidence folder.
        runs: The folder of each variant's run.
        key: The SSH key that signs it; None for none.

    Raises:
        EvidenceError: The runs cannot be compared, or the key does not sign.
    """
    sides = {}
    for variant, source in runs.items():
        if (source / store.RUN).is_file():
            sealing.refuse_unsealed(source)
        run, results = store.read_run(source)
        unit = unit_results.latest(evidence, run)
        sides[variant] = Side(run, results, unit, log_excerpts.read(source).cleanup or Cleanup())
    told = compared(sides)
    folder = folders.new_bundle(evidence)
    try:
        with store.disk_errors(folder):
            for variant, source in runs.items():
                shutil.copytree(source, folder / variant)
            for name, content in (unit_files(sides) | drawn(folder, told, sides)).items():
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(content)
            store.seal(folder)
            if key is not None:
                signing.sign(folder, key)
            path, digest = archive.write(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        folders.release(folder)
    return Made(folder, told, path, digest)


def compared(sides: Mapping[Variant, Side]) -> Comparison:
    """Return the comparison of two runs.

    Raises:
        EvidenceError: They cannot be compared.
    """
    baseline, fixed = sides[Variant.BASELINE], sides[Variant.FIXED]
    unit = {variant: unit_results.summary(variant, side.unit) for variant, side in sides.items()}
    cleanup = {variant: side.cleanup for variant, side in sides.items()}
    runs = (baseline.run, baseline.results, fixed.run, fixed.results)
    return compare(*runs, unit, cleanup=cleanup)


def unit_files(sides: Mapping[Variant, Side]) -> dict[str, bytes]:
    """Return the results of Go's own tests, by their place in a bundle."""
    return {
        unit_results.name(variant): side.unit
        for variant, side in sides.items()
        if isinstance(side.unit, bytes)
    }


def drawn(folder: Path, told: Comparison, sides: Mapping[Variant, Side]) -> dict[str, bytes]:
    """Return every file of a bundle that follows from its runs alone, by its place.

    Args:
        folder: The bundle, whose runs are there already: the reports quote their logs.
        told: The comparison.
        sides: Both variants' runs.
    """
    baseline, fixed = sides[Variant.BASELINE], sides[Variant.FIXED]
    runs = (baseline.run, baseline.results, fixed.run, fixed.results)
    beside = {variant: log_excerpts.read(folder / variant) for variant in Variant}
    said = statement.of(told, (baseline.run, fixed.run), (baseline.results, fixed.results))
    return {
        **schemas.files(),
        COMPARISON: store.as_json(told),
        STATEMENT: store.as_json(said),
        **{name: of(told, *runs, attached=beside).encode() for name, of in REPORTS.items()},
    }
