"""``python -m sessions.evidence.mutants FOLDER``: which wrong fix was caught, and by what.

The regression tests have been run on every mutant, the matrix on those that it can tell from the
fix. A mutant that one of the two should have caught and did not is a survivor.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.text import Text

from sessions.evidence.record import store
from sessions.matrix.verdict import Verdict
from wasm.fix_4396.mutants import FIX, MutantRecord, MutantRun
from wasm.foundation import terminal
from wasm.foundation.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RECORD = "mutants.json"
_HEADER = ("mutant", "regression tests", "matrix", "what is wrong about it")


def main(argv: list[str]) -> None:
    """Join what was recorded, show it, and refuse survivors."""
    parser = argparse.ArgumentParser(prog="python -m sessions.evidence.mutants")
    parser.add_argument("folder", type=Path, help="what `python -m wasm mutants` wrote, and runs/")
    folder = parser.parse_args(argv).folder
    found = joined(folder)
    with store.disk_errors(folder):
        store.write_json(folder / RECORD, found)
    show(found)
    print(f"evidence  {folder}", flush=True)
    refuse_survivors(found)


def joined(folder: Path) -> MutantRun:
    """Return what the regression tests found, with the cells that failed in runs/.

    Raises:
        EvidenceError: There is no such record, a mutant's run is missing or no valid one, or
            cells fail on the fix itself.
    """
    try:
        found = msgspec.json.decode((folder / RECORD).read_bytes(), type=MutantRun)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EvidenceError(
            f"{folder / RECORD} cannot be read ({error}); expected what `python -m wasm mutants` "
            "wrote; run `nox -s mutants`"
        ) from error
    _refuse_failing_fix(folder, found.fix)
    mutants = [
        replace(each, killed_at_runtime=_failing_cells(folder, each))
        if each.visible_at_runtime
        else each
        for each in found.mutants
    ]
    return replace(found, mutants=mutants)


def _refuse_failing_fix(folder: Path, fix: MutantRecord) -> None:
    """Refuse a matrix that fails on the right fix too: what it makes of a mutant is no kill."""
    failing = _failing_cells(folder, fix)
    if failing:
        raise EvidenceError(
            f"{len(failing)} cells of the matrix fail on the fix itself, first {failing[0]}; "
            "expected all to hold, or it catches nothing; run `nox -s runtime-fixed` to see why"
        )


def _failing_cells(folder: Path, mutant: MutantRecord) -> list[str]:
    """Return the cells that failed on a mutant's module. One without an observation is no kill."""
    run, results = store.read_run(folder / "runs" / mutant.id)
    if run.module.sha256 != mutant.module_sha256:
        raise EvidenceError(
            f"the run of {_named(mutant)} is of the module {run.module.sha256[:12]}, "
            f"expected {str(mutant.module_sha256)[:12]}; run `nox -s mutants` again"
        )
    without = [result for result in results if result.verdict is Verdict.INCONCLUSIVE]
    if run.failure or without or not results:
        reason = run.failure or (without[0].reason if without else "no cell was run")
        raise EvidenceError(
            f"the matrix on {_named(mutant)} is inconclusive: {reason.rstrip('.')}; expected "
            "an observation of every cell; run `nox -s mutants` again"
        )
    return [result.cell.id for result in results if result.verdict is Verdict.MISMATCH]


def _named(mutant: MutantRecord) -> str:
    return "the fix itself" if mutant.id == FIX.id else f"the mutant {mutant.id}"


def refuse_survivors(found: MutantRun) -> None:
    """Raise what was not caught by what it had to be caught by.

    Raises:
        EvidenceError: A mutant survives, or there is none at all.
    """
    alive = list(_survivors(found.mutants))
    if alive or not found.mutants:
        raise EvidenceError(
            f"{' and '.join(alive) or 'there was no mutant'}; expected every wrong fix to be "
            "caught; add a test that fails on it to wasm/go/regression, or a case"
        )


def _survivors(mutants: Sequence[MutantRecord]) -> Iterator[str]:
    for mutant in mutants:
        if not mutant.killed_by:
            yield f"{mutant.id} survives the regression tests"
        if mutant.visible_at_runtime and not mutant.killed_at_runtime:
            yield f"{mutant.id} survives the matrix"


def show(found: MutantRun) -> None:
    """Print who killed whom; plain text where the output is no terminal or NO_COLOR is set."""
    rows = [_HEADER] + [
        (mutant.id, _tests(mutant), _cells(mutant), mutant.says) for mutant in found.mutants
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    console = Console(
        highlight=False, color_system=None if os.environ.get("NO_COLOR") else "auto", markup=False
    )
    for number, row in enumerate(rows):
        padded = (part.ljust(width) for part, width in zip(row, widths, strict=True))
        line = Text("   ".join(padded).rstrip(), "bold" if number == 0 else "")
        line.highlight_words(["survives"], "bold red")
        console.print(line, soft_wrap=True)
    console.print(f"{found.tests_of_the_fix} tests pass on the fix itself", soft_wrap=True)


def _tests(mutant: MutantRecord) -> str:
    return f"killed by {len(mutant.killed_by)}" if mutant.killed_by else "survives"


def _cells(mutant: MutantRecord) -> str:
    if mutant.killed_at_runtime is None:
        return "not visible"
    cells = len(mutant.killed_at_runtime)
    return f"killed by {cells}" if cells else "survives"


if __name__ == "__main__":
    terminal.finish(lambda: main(sys.argv[1:]))
