"""Evidence changed after the fact, and hashes made to match: what a forger would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from containers.records import Cleanup
from sessions.evidence.pair import bundle
from sessions.evidence.record import store
from sessions.evidence.record.records import (
    Comparison,
    Counts,
    Run,
    RunSummary,
    UnitState,
    first_keys,
)
from sessions.matrix import cells
from wasm.records import Variant, sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessions.matrix.records import Result


def reseal(folder: Path) -> None:
    """Write every SHA256SUMS again, over whatever is there now."""
    for variant in Variant:
        if (folder / variant).is_dir():
            store.seal(folder / variant)
    store.seal(folder)


def cleanup_of(folder: Path) -> Cleanup:
    """Read a run's clean-up proof."""
    return msgspec.json.decode((folder / store.CLEANUP).read_bytes(), type=Cleanup)


def rehash(folder: Path) -> None:
    """Make everything that is a digest, or drawn from records, match what is there now.

    Verdicts, checks and counts are left as they are told.
    """
    sides = {}
    comparison = msgspec.json.decode((folder / bundle.COMPARISON).read_bytes(), type=Comparison)
    runs = {}
    for variant in Variant:
        run, results = store.read_run(folder / variant)
        files = {n: d for n, d in store.digests(folder / variant).items() if n != store.RUN}
        run = msgspec.structs.replace(run, files=files)
        store.write_json(folder / variant / store.RUN, run)
        store.seal(folder / variant)
        cleanup = cleanup_of(folder / variant)
        sides[variant] = bundle.Side(run, results, UnitState.NOT_RUN, cleanup)
        digest = sha256_of((folder / variant / store.RUN).read_bytes())
        runs[variant] = RunSummary(id=run.id, sha256=digest)
    comparison = msgspec.structs.replace(comparison, runs=runs)
    for name, content in bundle.drawn(folder, comparison, sides).items():
        (folder / name).write_bytes(content)
    store.seal(folder)


def conclude_again(folder: Path) -> None:
    """Let every conclusion follow from what is there now, then :func:`rehash`."""
    for variant in Variant:
        run, results = store.read_run(folder / variant)
        by_name = {case.name: case for case in run.cases}
        again = [
            cells.conclude(
                by_name[r.cell.case], r.cell, variant, r.observation, run.upstream_address
            )
            for r in results
        ]
        store.write_cells(folder / variant, again)
        run = msgspec.structs.replace(run, counts=Counts.of(again), first_keys=first_keys(again))
        store.write_json(folder / variant / store.RUN, run)
    sides = {}
    for variant in Variant:
        run, results = store.read_run(folder / variant)
        cleanup = cleanup_of(folder / variant)
        sides[variant] = bundle.Side(run, results, UnitState.NOT_RUN, cleanup)
    told = bundle.compared(sides)
    store.write_json(folder / bundle.COMPARISON, told)
    rehash(folder)


def change_run(folder: Path, side: Variant, **changes: Any) -> None:
    """Change fields of a run's record."""
    path = folder / side / store.RUN
    run = msgspec.json.decode(path.read_bytes(), type=Run)
    store.write_json(path, msgspec.structs.replace(run, **changes))


def change_cell(
    folder: Path, variant: Variant, number: int, change: Callable[[Result], Result]
) -> None:
    """Change one cell of a run."""
    run_folder = folder / variant
    _, results = store.read_run(run_folder)
    changed = [*results]
    changed[number] = change(results[number])
    assert changed[number] != results[number], "nothing was changed"
    store.write_cells(run_folder, changed)
