"""A comparison on the terminal: a table, baseline beside fixed, and one line with the verdict."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sessions.evidence.records import PairVerdict
from sessions.matrix.verdict import Verdict
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sessions.evidence.records import CellPair, Comparison, Side

_SIGNS = {Verdict.PASS: ("✓", "green"), Verdict.MISMATCH: ("✗", "red"), Verdict.INCONCLUSIVE: ("?", "yellow")}
_COLOURS = {PairVerdict.PROVEN: "green", PairVerdict.REFUTED: "red", PairVerdict.INCONCLUSIVE: "yellow"}


def show(comparison: Comparison, bundle: Path) -> None:
    """Print a comparison; plain text where the output is no terminal or NO_COLOR is set."""
    console = Console(highlight=False)
    table = Table(title=None, box=None, padding=(0, 3, 0, 0), header_style="bold")
    for column in ("case", "mode", "expected of the baseline", "baseline", "fixed"):
        table.add_column(column, overflow="fold")
    for (case, mode), pairs in _grouped(comparison.cells).items():
        table.add_row(
            escape(case),
            mode,
            pairs[0].expected,
            _side([pair.baseline for pair in pairs]),
            _side([pair.fixed for pair in pairs]),
        )
    console.print(table)
    console.print()
    for variant in Variant:
        counts = comparison.counts[variant]
        console.print(
            f"{variant:<9} {counts.cells} cells: {counts.passed} pass, {counts.mismatch} mismatch, "
            f"{counts.inconclusive} inconclusive; module {comparison.modules[variant].sha256}"
        )
    gateway = comparison.gateway
    release = "release evidence" if comparison.release_evidence else "not release evidence"
    console.print(
        f"gateway   {gateway.kind}, Envoy {_short(gateway.envoy_version)}, engine "
        f"{comparison.engine}: {release} for Higress' gateway"
    )
    console.print(f"evidence  {escape(str(bundle))}", soft_wrap=True)
    colour = _COLOURS[comparison.verdict]
    for reason in comparison.reasons:
        console.print(
            Text.assemble((f"{comparison.verdict}", f"bold {colour}"), f": {reason}"), soft_wrap=True
        )


def _grouped(cells: Sequence[CellPair]) -> dict[tuple[str, str], list[CellPair]]:
    groups: dict[tuple[str, str], list[CellPair]] = {}
    for pair in cells:
        groups.setdefault((pair.case, pair.mode), []).append(pair)
    return groups


def _side(sides: Sequence[Side]) -> Text:
    text = Text()
    for verdict, count in Counter(side.verdict for side in sides).items():
        sign, colour = _SIGNS[verdict]
        text.append(f"{sign} {count} {verdict}  ", style=colour)
    failed = sorted({check for side in sides for check in side.failed_checks})
    if failed:
        text.append("(" + ", ".join(failed) + ")", style="dim")
    return text


def _short(version: str) -> str:
    parts = version.split("/")
    return parts[1] if len(parts) > 1 else version
