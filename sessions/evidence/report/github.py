"""A comparison as GitHub Actions shows it: a step's summary, and an annotation for what failed.

Nothing is written unless the runner asks for it by its variables.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from sessions.evidence.record.records import PairVerdict
from sessions.evidence.report import markup, report_fields
from sessions.evidence.report.comparison_table import Outcome
from sessions.matrix import sanitize, verdict
from wasm.foundation import terminal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sessions.evidence.record.records import Comparison, Side
    from sessions.matrix.checks import CheckName

SUMMARY = "GITHUB_STEP_SUMMARY"
ACTIONS = "GITHUB_ACTIONS"
_SIGNS = {PairVerdict.PROVEN: "✓", PairVerdict.REFUTED: "✗", PairVerdict.INCONCLUSIVE: "?"}
# GitHub shows ten annotations of a step and takes 1 MiB of summary.
_ANNOTATIONS = 10
_ROWS = 200
_VALUE = 300
_SENTENCE = 2_000


def tell(comparison: Comparison, variables: Mapping[str, str] = os.environ) -> None:
    """Append the summary and print the annotations, where GitHub Actions runs this."""
    if variables.get(SUMMARY):
        # What only repeats the evidence must not keep it from being told.
        with (
            contextlib.suppress(OSError),
            Path(variables[SUMMARY]).open("a", encoding="utf-8") as f,
        ):
            f.write(summary(comparison))
    if variables.get(ACTIONS) == "true":
        terminal.give_commands(error_lines(comparison))


def error_lines(comparison: Comparison) -> tuple[str, ...]:
    """Return an ``::error`` line for each reason why a pair is not proven."""
    if comparison.verdict is PairVerdict.PROVEN:
        return ()
    reasons = comparison.reasons[:_ANNOTATIONS]
    return tuple(
        terminal.annotation(comparison.verdict, sanitize.shown(each, _SENTENCE)) for each in reasons
    )


def summary(comparison: Comparison) -> str:
    """Return the summary, in Markdown. Pure."""
    said = [markup.said(f"{each}.", _SENTENCE) for each in comparison.reasons[:_ANNOTATIONS]]
    more = len(comparison.reasons) - len(said)
    release = "Release evidence" if comparison.release_evidence else "Not release evidence"
    whys = [
        f"- {markup.said(f'{why}.', _SENTENCE)}"
        for why in comparison.no_release_evidence[:_ANNOTATIONS]
    ]
    seen_in = markup.code(report_fields.gateway(comparison), _VALUE)
    lines = [
        f"### {_SIGNS[comparison.verdict]} gateway-proof: {comparison.verdict}",
        "",
        *(f"- {each}" for each in said),
        *([f"- and {more:,} more reasons, in `comparison.json`"] if more else []),
        *([f"- {comparison.beside_the_reason}."] if comparison.beside_the_reason else []),
        "",
        f"Seen in {seen_in}. {release} for Higress' gateway{', since:' if whys else '.'}",
        *(["", *whys] if whys else []),
        "",
        "| case | mode | baseline | fixed |",
        "| --- | --- | --- | --- |",
        *_table(comparison),
        "",
        *(
            f"- {variant} module {markup.code(module.sha256, _VALUE)}, "
            f"{markup.code(module.source, _VALUE)}"
            for variant, module in comparison.modules.items()
        ),
        "",
    ]
    return "\n".join([*lines, ""])


def _table(comparison: Comparison) -> Iterable[str]:
    groups: dict[tuple[str, str], tuple[Counter[Outcome], Counter[Outcome]]] = {}
    for pair in comparison.cells:
        baseline, fixed = groups.setdefault((pair.case, pair.mode), (Counter(), Counter()))
        baseline[_outcome(pair.baseline, pair.must_fail)] += 1
        fixed[_outcome(pair.fixed, ())] += 1
    # What contradicts the claim first, should there be too many.
    ordered = sorted(
        groups.items(), key=lambda group: all(o.as_declared for side in group[1] for o in side)
    )
    for (case, mode), sides in ordered[:_ROWS]:
        cells = " | ".join(_counted(side) for side in sides)
        yield f"| {markup.code(case, _VALUE)} | {mode} | {cells} |"
    if len(ordered) > _ROWS:
        yield f"| and {len(ordered) - _ROWS:,} more | | | |"


def _outcome(side: Side, must_fail: Iterable[CheckName]) -> Outcome:
    declared = verdict.as_declared(side.verdict, side.failed_checks, must_fail)
    return Outcome(side.verdict, declared)


def _counted(side: Counter[Outcome]) -> str:
    return ", ".join(f"{outcome.sign} {count:,} {outcome.words}" for outcome, count in side.items())
