"""A run as it was recorded: its record, its cells, and the folder with all its other files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sessions.evidence.record.records import Run
from sessions.matrix.cells import plan
from sessions.matrix.records import Result
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessions.matrix.records import Observation


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A run, whose files can be held against its cells."""

    folder: Path
    run: Run
    results: tuple[Result, ...]

    @property
    def whole(self) -> bool:
        """Whether the matrix ran to its end, and every cell has a valid observation."""
        return not self.run.failure and all(result.checks for result in self.results)

    @property
    def short_of_its_claim(self) -> str:
        """Why the run is not what its variant must show, in a sentence; empty when it is."""
        planned = len(plan(self.run.cases, self.run.repeats))
        return self.run.failure or shortcoming(self.run.variant, self.results, planned)

    @property
    def exchanges(self) -> Iterator[tuple[str, Result, Observation]]:
        """Give each request that was to be sent: its id, its cell, and what was seen of it."""
        for result in self.results:
            for name, seen in result.exchanges.items():
                yield name, result, seen

    def text(self, name: str) -> str:
        """Return a file's text.

        Raises:
            ValueError: It is missing.
        """
        return self.data(name).decode("utf-8", "replace")

    def data(self, name: str) -> bytes:
        """Return a file's bytes, likewise."""
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise ValueError(f"{name} cannot be read ({error.strerror})") from error


def shortcoming(variant: Variant, results: Sequence[Result], planned: int) -> str:
    """Return what cells lack of what a variant must show, in a sentence; empty for nothing."""
    wrong = [result for result in results if not result.as_declared]
    if wrong:
        return (
            f"{variant}: {len(wrong)} of {len(results)} cells are not as declared, first "
            f"{wrong[0].cell.id}: {wrong[0].finding}"
        )
    if len(results) != planned:
        return f"{variant}: only {len(results)} of {planned} planned cells were run"
    if variant is Variant.BASELINE and not any(result.must_fail for result in results):
        return (
            "baseline: no cell had to fail, so nothing was reproduced; expected at least one case "
            "with `must_fail`; choose such a one with --case or --cases"
        )
    return ""
