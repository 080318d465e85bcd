"""A comparison as one HTML file: for a browser, a phone, or paper; no script, no network.

Whatever is put into the template is escaped, what cannot be seen in it is named, and what is long
is cut. On top of that the page's own policy allows nothing but its one style sheet.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import jinja2
import msgspec
from markupsafe import Markup, escape

from sessions.evidence.record import redact
from sessions.evidence.record.records import PairVerdict
from sessions.evidence.report import comparison_table, report_fields, sequence_diagram
from sessions.evidence.report.log_excerpts import Attached
from sessions.matrix import credentials, sanitize
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sessions.evidence.record.records import Comparison, Run
    from sessions.evidence.report.comparison_table import Alike, Outcome, Row
    from sessions.evidence.report.sequence_diagram import Message
    from sessions.matrix.records import Result
    from sessions.matrix.sanitize import Body

NAME = "report.html"
_TEMPLATES = Path(__file__).parent / "templates"
_SIGNS = {PairVerdict.PROVEN: "✓", PairVerdict.REFUTED: "✗", PairVerdict.INCONCLUSIVE: "?"}
_STATES = {"as declared": "good", "not as declared": "bad", "no valid observation": "warn"}
_SIGN_CLASSES = {" ": "same", "-": "expected", "+": "actual", "…": "gap"}
# How much of what came from outside is shown; the rest is in the bundle, and the page says so.
_VALUE = 2_000
_SENTENCE = 600
_BODY_BYTES = 2_000
_PATCH_BYTES = 30_000
LIMITS = SimpleNamespace(
    rows=60, detailed=24, pictures=3, attempts=6, headers=40, keys=20, chips=10, names=300,
    reasons=10, leftovers=60, configs=12, suites=10,
)  # fmt: skip


def render(  # noqa: PLR0913 - two runs, and what lies beside them
    comparison: Comparison,
    baseline: Run,
    baseline_results: Sequence[Result],
    fixed: Run,
    fixed_results: Sequence[Result],
    *,
    attached: Mapping[Variant, Attached] | None = None,
) -> str:
    """Return the page. Pure."""
    every = comparison_table.of(
        baseline, {Variant.BASELINE: baseline_results, Variant.FIXED: fixed_results}
    )
    grid, crowds = comparison_table.shown(every, LIMITS.rows)
    pictured = _pictured(grid)
    style = (_TEMPLATES / "report.css").read_text(encoding="utf-8")
    beside = {variant: (attached or {}).get(variant, Attached()) for variant in Variant}
    return (
        _environment()
        .get_template("report.html")
        .render(
            comparison=comparison,
            verdict_sign=_SIGNS[comparison.verdict],
            holds_for=report_fields.holds_for(comparison, fixed),
            baseline=baseline,
            fixed=fixed,
            runs=(baseline, fixed),
            repeats=baseline.repeats,
            row_count=len(every),
            grid=grid,
            crowds=crowds,
            pictured=pictured,
            arrivals={
                run.variant: comparison_table.arrivals(run, results)
                for run, results in ((baseline, baseline_results), (fixed, fixed_results))
            },
            detailed={row.number for row in pictured},
            provenance=report_fields.provenance(baseline, fixed),
            patches=_patches(baseline, fixed),
            configs=[(case, _config(case.plugin)) for case in baseline.cases[: LIMITS.configs]],
            rerun=report_fields.rerun(
                baseline, fixed, unit=bool(comparison.unit[Variant.FIXED].suites)
            ),
            attached=beside,
            has_logs=any(each.excerpts for each in beside.values()),
            style=Markup(style),  # noqa: S704 - our own file
            style_digest=f"sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}",
        )
    )


def _pictured(grid: Sequence[Row]) -> tuple[Row, ...]:
    """Choose the rows that are drawn, what contradicts the claim first."""
    ranked = sorted(grid, key=lambda row: (row.as_declared, not row.must_fail, row.number))
    if len(grid) <= LIMITS.detailed:
        return tuple(sorted(ranked, key=lambda row: (row.as_declared, row.number)))
    return tuple(ranked[: LIMITS.detailed])


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_seen,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "body": _body,
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
        "chip": _chip,
        "coded": _coded,
        "command": shlex.join,
        "lines": _lines,
        "number": lambda number: f"{number:,}",
        "patch_body": lambda content: sanitize.body(content, _PATCH_BYTES),
        "patch_class": _patch_class,
        "repeats": _repeats,
        "seconds": lambda seconds: f"{seconds:.2f} s",
        "state_class": lambda row: _STATES[row.state],
        "sentence": lambda text: _coded(
            sanitize.brief(f"{text[:1].upper()}{text[1:]}.", _SENTENCE)
        ),
        "sign": lambda sign: {"-": "−"}.get(sign, sign),  # noqa: RUF001 - as wide as the plus
        "sign_class": _SIGN_CLASSES.__getitem__,
    }
    environment.globals |= {
        "cleanup": lambda proof: tuple(report_fields.cleanup(proof)),
        "draw": sequence_diagram.of,
        "headers": sequence_diagram.headers,
        "letter": sequence_diagram.letter,
        "limits": LIMITS,
        "times": report_fields.times,
        "words": sequence_diagram.words,
    }
    return environment


def _seen(value: Any) -> Any:  # noqa: ANN401 - whatever a template puts in
    """Make a value harmless on its way into the page; what is already markup stays."""
    if isinstance(value, Markup) or value is None:
        return value
    return _markup(sanitize.brief(str(value), _VALUE), lines=False)


def _lines(text: str) -> Markup:
    return _markup(text, lines=True)


def _markup(text: str, *, lines: bool) -> Markup:
    if text.isascii() and text.isprintable():
        return escape(text)
    named = Markup('<span class="named">{}</span>')
    return Markup("").join(
        named.format(piece.text) if piece.named else escape(piece.text)
        for piece in sanitize.pieces(text, lines=lines)
    )


def _coded(text: str) -> Markup:
    """Return a sentence of ours with what it has in backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return _markup(text, lines=False)
    code = Markup("<code>{}</code>")
    return Markup("").join(
        code.format(_markup(part, lines=False)) if number % 2 else _markup(part, lines=False)
        for number, part in enumerate(parts)
    )


def _body(message: Message) -> Body:
    return sanitize.body(message.body, _BODY_BYTES, message.body_bytes, message.body_sha256)


def _config(plugin: dict[str, Any]) -> Body:
    return sanitize.body(
        msgspec.json.format(msgspec.json.encode(plugin), indent=2), 2 * _BODY_BYTES
    )


def _patches(baseline: Run, fixed: Run) -> list[tuple[str, bytes]]:
    patches = []
    for run in (baseline, fixed):
        change = run.module.source.uncommitted
        if change:
            patches.append((f"Uncommitted changes of the {run.variant}", _masked(change.content)))
    fix = fixed.module.source.fix
    if fix:
        patches.append((f"The fix: {fix.origin}", _masked(fix.patch.content)))
    return patches


def _masked(patch: bytes) -> bytes:
    """Return a patch as it is shown: what looks like a credential is not repeated."""
    shown = redact.masked_patch(patch.decode("latin-1"))
    return credentials.masked(shown).encode("latin-1")


def _patch_class(line: str) -> str:
    return {"+": "plus", "-": "minus", "@": "at"}.get(line[:1], "same")


def _chip(outcome: Outcome) -> str:
    name = "none" if outcome.verdict == comparison_table.NOT_RECORDED else outcome.verdict
    return name if outcome.as_declared else f"{name} odd"


def _repeats(alike: Alike) -> str:
    count = len(alike.repeats)
    first = alike.repeats[0]
    if count == 1:
        return f"Repeat {first}"
    return f"Repeat {first} of {count} that look the same"
