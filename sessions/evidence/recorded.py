"""A run as it was recorded: its record, its cells, and the folder with all its other files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sessions.evidence.records import Run
from sessions.matrix.records import Result


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
