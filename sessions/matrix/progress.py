"""What a session shows while it works: each stage, then how far the cells are.

In a terminal the stage that is under way is the last line, and the cells have a bar; elsewhere
each is a line. Where NO_COLOR is set there are no colours. No thread draws any of it: a session
starts processes meanwhile, and must be alone to fork.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from sessions.matrix import exact_json, text_diff
from sessions.matrix.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessions.matrix.checks import Check
    from sessions.matrix.records import Result

_EVERY_S = 5.0
_REDRAWN_S = 0.1
_NAMED_AT_MOST = 10
_CHECKS_AT_MOST = 3
_VALUE_AT_MOST = 160


class Shown:
    """Shows one variant's run.

    Args:
        planned: How many cells there are to be.
        console: Where to; standard output unless told otherwise.
    """

    def __init__(self, planned: int, console: Console | None = None) -> None:
        self._planned = planned
        self._console = console or Console(
            highlight=False, color_system=None if os.environ.get("NO_COLOR") else "auto"
        )
        self._seen: Counter[tuple[Verdict, bool]] = Counter()
        self._wrong: dict[str, list[Result]] = {}
        self._bar: Progress | None = None
        self._since: float | None = None
        self._said = 0.0

    def say(self, text: str, style: str = "") -> None:
        """Show a line; in a terminal it breaks between words, and elsewhere not at all."""
        self._print(Text(text, style))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=not self._console.is_terminal)

    @contextlib.contextmanager
    def stage(self, text: str) -> Iterator[None]:
        """Show what is under way as long as it is; where nothing goes away, as a line."""
        if not self._console.is_terminal:
            self.say(text)
            yield
            return
        with Live(Text(text, "dim"), console=self._console, auto_refresh=False, transient=True):
            yield

    def cell(self, result: Result) -> None:
        """Take a cell's result."""
        if self._since is None:
            self._begin()
        self._seen[result.verdict, result.as_declared] += 1
        if not result.as_declared:
            self._wrong.setdefault(result.finding, []).append(result)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], advance=1, told=self._told())
        if time.monotonic() - self._said > (_EVERY_S if self._bar is None else _REDRAWN_S):
            self._said = time.monotonic()
            if self._bar is None:
                self.say(f"cells: {self._seen.total():,} of {self._planned:,}")
            else:
                self._bar.refresh()

    def end(self) -> None:
        """Show what all cells were, and each finding that is not as declared."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if self._since is None:
            return
        spent, self._since = time.monotonic() - self._since, None
        number = self._seen.total()
        of = "" if number == self._planned else f" of {self._planned:,}"
        text = Text(f"cells: {number:,}{of} in {spent:.1f} s: ")
        text.append_text(self._told())
        self._print(text)
        for finding, results in [*self._wrong.items()][:_NAMED_AT_MOST]:
            more = f" and {len(results) - 1:,} more" if len(results) > 1 else ""
            self.say(f"  {results[0].cell.id}{more}: {finding}", "red")
            for check in _undeclared(results[0])[:_CHECKS_AT_MOST]:
                values = _plain(check.expected), _plain(check.actual)
                expected, actual = text_diff.apart(*values, _VALUE_AT_MOST)
                self.say(f"    {check.name}: expected {expected}")
                self.say(f"    {' ' * len(check.name)}    actual {actual}")
        if len(self._wrong) > _NAMED_AT_MOST:
            self.say(f"  and {len(self._wrong) - _NAMED_AT_MOST:,} findings more, in the report")

    def _begin(self) -> None:
        self._since = self._said = time.monotonic()
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("cells:"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[told]}"),
                console=self._console,
                auto_refresh=False,
                transient=True,
            )
            self._bar.add_task("", total=self._planned, told=Text())
            self._bar.start()

    def _told(self) -> Text:
        text = Text()
        kinds = [(verdict, as_declared) for verdict in Verdict for as_declared in (True, False)]
        for kind in [kind for kind in kinds if self._seen[kind]]:
            text.append(", " if text else "")
            text.append(f"{self._seen[kind]:,} {_WORDS[kind]}", _colour(*kind))
        return text


def _undeclared(result: Result) -> list[Check]:
    """Return the checks that failed and were not declared to."""
    return [each for each in result.checks if not each.holds and each.name not in result.must_fail]


def _plain(value: object) -> str:
    """Return a check's value as a line of plain ASCII, whatever a plugin put in it.

    Keys are sorted and numbers plain: order and notation are no difference.
    """
    value = text_diff.plain_numbers(exact_json.exactly(value))
    return json.dumps(value, ensure_ascii=True, default=_number, sort_keys=True)


def _number(value: Decimal) -> float | str:
    """Return a number as JSON has it; as a text where that would round it."""
    return float(value) if Decimal(repr(float(value))) == value else str(value)


_WORDS = {
    (Verdict.PASS, True): "pass",
    (Verdict.PASS, False): "pass though they had to fail",
    (Verdict.MISMATCH, True): "mismatch as declared",
    (Verdict.MISMATCH, False): "mismatch not as declared",
    (Verdict.INCONCLUSIVE, False): "inconclusive",
}


def _colour(verdict: Verdict, as_declared: bool) -> str:  # noqa: FBT001 - a kind of cell
    if verdict is Verdict.INCONCLUSIVE:
        return "yellow"
    return "green" if as_declared else "red"
