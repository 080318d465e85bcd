"""A comparison as the text of a pull request: the fields of Higress' template, ready to paste.

What only the author can know is said to be so, never guessed; no approval is claimed. GitHub takes
65,536 characters: where the whole would be longer, less detail is told, and the text says so.
"""

from __future__ import annotations

import functools
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2
import msgspec

from sessions.evidence.record.records import PairVerdict
from sessions.evidence.report import comparison_table, markup, report_fields, sequence_diagram
from sessions.evidence.report.log_excerpts import Attached
from sessions.matrix import sanitize
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from containers.records import Cleanup
    from sessions.evidence.record.records import Comparison, Run
    from sessions.evidence.report.comparison_table import Lane, Row
    from sessions.evidence.report.sequence_diagram import Finding, Message
    from sessions.matrix.case import Case
    from sessions.matrix.records import Result
    from sessions.matrix.text_diff import Difference

NAME = "report.md"
AT_MOST = 60_000
_TEMPLATES = Path(__file__).parent / "templates"
_TITLE = 120


class Limits(NamedTuple):
    """How much is told: characters of a value and of a block, and how many of each list."""

    value: int
    block: int
    rows: int
    pictured: int
    items: int


# Each tells less than the one before; the last stays far below the limit whatever comes in.
_LIMITS = (
    Limits(value=600, block=4_000, rows=40, pictured=6, items=40),
    Limits(value=300, block=2_000, rows=30, pictured=3, items=20),
    Limits(value=160, block=800, rows=12, pictured=1, items=8),
    Limits(value=80, block=300, rows=6, pictured=0, items=4),
)


def render(  # noqa: PLR0913 - two runs, and what lies beside them
    comparison: Comparison,
    baseline: Run,
    baseline_results: Sequence[Result],
    fixed: Run,
    fixed_results: Sequence[Result],
    *,
    attached: Mapping[Variant, Attached] | None = None,
) -> str:
    """Return the text; always shorter than ``AT_MOST`` characters. Pure."""
    every = comparison_table.of(
        baseline, {Variant.BASELINE: baseline_results, Variant.FIXED: fixed_results}
    )
    known: dict[str, Any] = {
        "comparison": comparison,
        "proven": comparison.verdict is PairVerdict.PROVEN,
        "holds_for": report_fields.holds_for(comparison, fixed),
        "issue": report_fields.issue(fixed),
        "is_reference": report_fields.is_reference(fixed),
        "baseline": baseline,
        "fixed": fixed,
        "runs": (baseline, fixed),
        "row_count": len(every),
        "provenance": report_fields.provenance(baseline, fixed),
        "rerun": report_fields.rerun(
            baseline, fixed, unit=bool(comparison.unit[Variant.FIXED].suites)
        ),
        "reproduced": [row for row in every if row.must_fail and row.lanes[0].as_declared],
        "failing": [(row, row.lanes[1].failed) for row in every if row.lanes[1].failed],
        "attached": {variant: (attached or {}).get(variant, Attached()) for variant in Variant},
        "one_key": [row for row in every if any(_one_key(lane) for lane in row.lanes)],
    }
    text = ""
    for limits in _LIMITS:
        text = _drawn(known, every, limits)
        if len(text) < AT_MOST:
            break
    return text


def _drawn(known: dict[str, Any], every: Sequence[Row], limits: Limits) -> str:
    shown, crowds = comparison_table.shown(every, limits.rows)
    ranked = sorted(shown, key=lambda row: (row.as_declared, not row.must_fail, row.number))
    pictured = [row for row in ranked if row.must_fail or not row.as_declared][: limits.pictured]
    text = (
        _environment(limits)
        .get_template("report.md")
        .render(
            **known, limits=limits, rows=shown, crowds=crowds, pictured=pictured,
            less=limits is not _LIMITS[0],
        )
    )  # fmt: skip
    return text.strip() + "\n"


@functools.cache
def _environment(limits: Limits) -> jinja2.Environment:
    environment = jinja2.Environment(  # noqa: S701 - finalize escapes, and for Markdown
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: _safe(value, limits),
    )
    environment.filters |= {
        "block": lambda text, language="text": markup.block(text, limits.block, language),
        "capitalize_first": lambda text: markup.Written(text[:1].upper() + text[1:]),
        "command": shlex.join,
        "few": lambda items: list(items)[: limits.items],
        "json": lambda value: msgspec.json.format(msgspec.json.encode(value), indent=2).decode(),
        "listed": lambda items: _listed(items, limits),
        "ours": markup.Written,
        "said": lambda text: markup.said(text, limits.value),
        "sentence": lambda text: markup.said(f"{text[:1].upper()}{text[1:]}.", limits.value),
        "title": lambda text: markup.folded_title(text, _TITLE),
    }
    environment.globals |= {
        "cleanup": _cleanup,
        "counted": _counted,
        "drawing": _drawing,
        "envoy": report_fields.envoy,
        "row": lambda *cells: _row(cells, limits),
        "times": report_fields.times,
    }
    return environment


def _safe(value: object, limits: Limits) -> str:
    if isinstance(value, markup.Written):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return markup.code(str(value), limits.value)


def _row(cells: Iterable[object], limits: Limits) -> markup.Written:
    return markup.Written(f"| {' | '.join(_safe(cell, limits) for cell in cells)} |")


def _listed(items: Iterable[object], limits: Limits) -> markup.Written:
    every = [str(item) for item in items]
    shown = [markup.code(item, limits.value) for item in every[: limits.items]]
    more = len(every) - len(shown)
    return markup.Written(", ".join(shown) + (f" and {more:,} more" if more else ""))


def _counted(lane: Lane) -> markup.Written:
    """Say in a few words what a lane's repeats showed."""
    return markup.Written(
        ", ".join(f"{outcome.sign} {count:,} {outcome.words}" for outcome, count in lane.counted)
    )


def _cleanup(proof: Cleanup) -> str:
    return "\n".join(
        f"{'✓' if gone else '✗'} {what}" for what, gone in report_fields.cleanup(proof)
    )


def _one_key(lane: Lane) -> bool:
    """Whether only one key ever came first, so that the other one first was not seen."""
    return lane.retried > 0 and len(lane.first_keys) == 1


def _drawing(case: Case, result: Result) -> str:
    """Draw a cell in text: its messages in order, below each what was wrong with it."""
    drawn = sequence_diagram.of(case, result)
    lines = []
    for message in drawn.messages:
        lines += [_line(message), *_found(message.findings)]
    if drawn.not_drawn:
        lines.append(f"and {drawn.not_drawn:,} more attempts")
    if drawn.fault:
        lines.append(f"? no valid observation: {drawn.fault}")
    return "\n".join([*lines, *_found(drawn.findings)])


_WAYS = {
    "request": "client  -> gateway ",
    "attempt": "gateway -> upstream",
    "answer": "gateway <- upstream",
    "response": "client  <- gateway ",
}


def _line(message: Message) -> str:
    key = f"[key {message.key}] " if message.key else ""
    at = f"  ({message.at})" if message.at else ""
    wrong = "  ✗ wrong" if message.wrong else ""
    return f"{_WAYS[message.way]}  {key}{_brief(message.text)}{at}{wrong}"


def _found(findings: Iterable[Finding]) -> list[str]:
    lines = []
    for finding in findings:
        lines.append(f"    {finding.check}:")
        if finding.difference is None:
            lines.append(f"      expected {_brief(finding.expected)}")
            lines.append(f"      actual   {_brief(finding.actual)}")
        else:
            lines += _differing(finding.difference)
    return lines


def _differing(found: Difference) -> list[str]:
    lines = [f"      {x.sign} {_brief(x.before + x.differs + x.after)}" for x in found.lines]
    return [*lines, f"      ({found.note})"] if found.note else lines


def _brief(text: str) -> str:
    return sanitize.shown(text, _TITLE)
