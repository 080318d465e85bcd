"""A comparison on the terminal: a table, baseline beside fixed, and last of all the verdict."""

from __future__ import annotations

import contextlib
import os
import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from sessions.evidence.record import signing, store
from sessions.evidence.record.records import PairVerdict
from sessions.evidence.report import github, html, report_fields
from sessions.matrix import sanitize, verdict
from sessions.matrix.checks import in_order
from sessions.matrix.verdict import Verdict
from wasm.foundation.errors import EvidenceError
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from sessions.evidence.record.records import CellPair, Comparison, Side
    from sessions.matrix.checks import CheckName

_COLOURS = {
    PairVerdict.PROVEN: "green",
    PairVerdict.REFUTED: "red",
    PairVerdict.INCONCLUSIVE: "yellow",
}
# What is more is in the reports; a terminal is for a look.
_ROWS = 60
_REASONS = 10
_HEADER = ("case", "mode", *Variant)
_INDENT = "  "
_GAP = "   "


def show(comparison: Comparison, bundle: Path) -> None:
    """Print a comparison; plain text where the output is no terminal or NO_COLOR is set."""
    console = Console(
        highlight=False, color_system=None if os.environ.get("NO_COLOR") else "auto", markup=False
    )
    for line in (*_table(comparison.cells), Text(), *_facts(comparison, bundle), Text()):
        _print(console, line)
    for line in _reasons(comparison):
        _print(console, line)
    github.tell(comparison)
    last = Text(sanitize.plain(comparison.headline))
    last.stylize(f"bold {_COLOURS[comparison.verdict]}", 0, len(comparison.verdict))
    _print(console, last)


def _print(console: Console, line: Text) -> None:
    """Print a line; in a terminal a sentence breaks between words, and piped nothing breaks."""
    if console.is_terminal and len(line) > console.width and not line.no_wrap:
        indent = " " * (len(line.plain) - len(line.plain.lstrip()) + len(_INDENT))
        shorter = textwrap.wrap(
            line.plain,
            console.width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        spans, style = line.spans, line.style
        line = Text("\n".join(shorter), style, spans=spans)
    console.print(line, soft_wrap=True)


def _table(cells: Sequence[CellPair]) -> Iterator[Text]:
    """Give a line per case and mode, below it what failed; no name is ever folded or cut."""
    groups: dict[tuple[str, str], list[CellPair]] = {}
    for pair in cells:
        groups.setdefault((sanitize.plain(pair.case), pair.mode), []).append(pair)
    groups, left_out = _worth_a_line(groups)
    rows = [
        (
            Text(case),
            Text(mode),
            _verdicts((pair.baseline, pair.must_fail) for pair in pairs),
            _verdicts((pair.fixed, ()) for pair in pairs),
        )
        for (case, mode), pairs in groups.items()
    ]
    header = tuple(Text(title, "bold") for title in _HEADER)
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(_HEADER))]
    yield _row(header, widths)
    for row, pairs in zip(rows, groups.values(), strict=True):
        yield _row(row, widths)
        yield from _failures("baseline", [(pair.baseline, pair.must_fail) for pair in pairs])
        yield from _failures("fixed", [(pair.fixed, ()) for pair in pairs])
    yield from (Text(line, "dim") for line in left_out)


def _worth_a_line(
    groups: dict[tuple[str, str], list[CellPair]],
) -> tuple[dict[tuple[str, str], list[CellPair]], list[str]]:
    """Choose the rows to print, those not as declared first; say how many of which are not."""
    if len(groups) <= _ROWS:
        return groups, []
    good = {name for name, pairs in groups.items() if all(map(_as_declared, pairs))}
    chosen = {*[name for name in groups if name not in good][:_ROWS]}
    chosen |= {*[name for name in groups if name in good][: _ROWS - len(chosen)]}
    hidden = groups.keys() - chosen
    counts = ((len(hidden - good), "not as declared"), (len(hidden & good), "as declared"))
    return (
        {name: pairs for name, pairs in groups.items() if name in chosen},
        [f"and {count:,} more {what}; see report.html" for count, what in counts if count],
    )


def _as_declared(pair: CellPair) -> bool:
    return verdict.as_declared(
        pair.baseline.verdict, pair.baseline.failed_checks, pair.must_fail
    ) and verdict.as_declared(pair.fixed.verdict, pair.fixed.failed_checks, ())


def _row(parts: Sequence[Text], widths: Sequence[int]) -> Text:
    line = Text(no_wrap=True)
    for part, width in zip(parts, widths, strict=True):
        line.append_text(part).append(" " * (width - len(part)) + _GAP)
    line.rstrip()
    return line


def _verdicts(sides: Iterable[tuple[Side, tuple[CheckName, ...]]]) -> Text:
    """Count the verdicts; green where each cell showed what was declared."""
    counts: Counter[tuple[Verdict, str]] = Counter()
    for side, must_fail in sides:
        colour = "green" if set(side.failed_checks) == set(must_fail) else "red"
        counts[side.verdict, "yellow" if side.verdict is Verdict.INCONCLUSIVE else colour] += 1
    text = Text()
    for (shown, colour), count in counts.items():
        text.append(", " if text else "").append(f"{count} {shown}", colour)
    return text


def _failures(variant: str, sides: Sequence[tuple[Side, tuple[CheckName, ...]]]) -> Iterator[Text]:
    """Say which checks failed, those that had to apart from those that had not."""
    silent = [side.reason for side, _ in sides if side.verdict is Verdict.INCONCLUSIVE]
    seen = [pair for pair in sides if pair[0].verdict is not Verdict.INCONCLUSIVE]
    declared = {check for side, must_fail in seen for check in {*side.failed_checks} & {*must_fail}}
    others = {check for side, must_fail in seen for check in {*side.failed_checks} - {*must_fail}}
    held = {check for side, must_fail in seen for check in {*must_fail} - {*side.failed_checks}}
    for what, checks, colour in (
        ("as declared", declared, "dim"),
        ("not declared", others, "red"),
        ("declared but held", held, "red"),
    ):
        if checks:
            yield Text(f"{_INDENT}{variant}, {what}: {', '.join(in_order(checks))}", colour)
    for reason in dict.fromkeys(silent):
        yield Text(f"{_INDENT}{variant}: {sanitize.plain(reason)}", "yellow")


def _facts(comparison: Comparison, bundle: Path) -> Iterator[Text]:
    for variant in Variant:
        counts = comparison.counts[variant]
        yield Text(
            f"{variant:<10}{counts.cells} cells: {counts.passed} pass, {counts.mismatch} mismatch, "
            f"{counts.inconclusive} inconclusive"
        )
        module = comparison.modules[variant]
        yield Text(f"  run     {sanitize.plain(comparison.runs[variant].id)}")
        yield Text(f"  module  {module.sha256}")
        if module.fix:
            yield Text(f"  fix     {sanitize.plain(module.fix)}")
        if module.go and variant is Variant.FIXED:
            yield Text(f"Go        {sanitize.plain(module.go)}")
    gateway = comparison.gateway
    version = sanitize.plain(report_fields.envoy(gateway.envoy_version))
    yield Text(f"gateway   {gateway.kind}, Envoy {version}, engine {comparison.engine}")
    no, because = ("", "") if comparison.release_evidence else ("not ", ", since")
    yield Text(f"          {no}release evidence for Higress' gateway{because}")
    for why in comparison.no_release_evidence:
        yield Text(f"            {sanitize.plain(why)}")
    yield Text(f"evidence  {bundle}")
    yield Text(f"report    {bundle / html.NAME}")
    if (bundle / store.SIGNATURE).is_file():
        yield Text(f"signed    {store.SIGNATURE}{_by(bundle)}")


def _by(bundle: Path) -> str:
    with contextlib.suppress(EvidenceError):
        return f", with the key {signing.key_of(bundle)}"
    return ""


def _reasons(comparison: Comparison) -> Iterator[Text]:
    """Give every reason in order, where there are more than the one that the verdict names."""
    number = len(comparison.reasons)
    if number == 1:
        return
    yield Text(f"why it is {comparison.verdict}, {number:,} reasons:")
    for reason in comparison.reasons[:_REASONS]:
        yield Text(f"{_INDENT}{sanitize.plain(reason)}")
    if number > _REASONS:
        yield Text(f"{_INDENT}and {number - _REASONS:,} more, in comparison.json")
    yield Text()
