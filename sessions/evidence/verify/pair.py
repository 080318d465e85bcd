"""The checks of two runs together, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sessions.evidence.pair import bundle, comparable, unit_results
from sessions.evidence.pair.compare import ENOUGH_REPEATS
from sessions.evidence.record import store
from sessions.evidence.record.json_diff import differences
from sessions.evidence.record.machine import OURSELVES
from sessions.evidence.record.records import UnitState
from wasm.records import Variant

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.evidence.record.check_results import Check, Findings
    from sessions.evidence.record.records import Comparison
    from sessions.evidence.verify.reading import Side

PAIRING, REPEATS, UNIT, COMPARISON, DRAWN, NOTHING_ELSE = (
    *("pairing", "repeats", "unit results", "comparison"),
    *("reports", "nothing else"),
)
CHECKS = (PAIRING, REPEATS, UNIT, COMPARISON, DRAWN, NOTHING_ELSE)


def check(
    found: Findings, root: Path, baseline: Side, fixed: Side, told: Comparison | None
) -> None:
    """Make every check of a pair."""
    found.look(PAIRING, "", lambda: _pairing(baseline, fixed))
    sides = {
        variant: bundle.Side(side.run, side.results, _results(side, told), side.cleanup)
        for variant, side in zip(Variant, (baseline, fixed), strict=True)
    }
    found.look(UNIT, "", lambda: _unit(sides))
    again: list[Comparison] = []
    found.look(COMPARISON, "", lambda: _comparison(told, sides, again))
    if again:
        found.look(REPEATS, "", lambda: _repeats(again[0]))
        drawn = bundle.drawn(root, again[0], sides)
        version = fixed.run.machine.versions.get(OURSELVES, "not told")
        found.look(DRAWN, "", lambda: _drawn(root, drawn, version))
        known = {*drawn, *bundle.unit_files(sides)}
        found.look(NOTHING_ELSE, "", lambda: _nothing_else(root, known))


def _results(side: Side, told: Comparison | None) -> bytes | UnitState:
    """Return the results of Go's own tests that a bundle holds, or why it says it holds none.

    Which results lay there when it was made, and of which tree, no bundle shows.
    """
    if side.unit is not None:
        return side.unit
    summary = told.unit.get(side.run.variant) if told else None
    if summary is None or summary.state in (UnitState.PASSED, UnitState.FAILED):
        return UnitState.NOT_RUN
    return summary.state


def _pairing(baseline: Side, fixed: Side) -> Check:
    """The two runs differ in nothing but the module."""
    comparable.refuse_unlike(baseline.run, fixed.run)
    if baseline.run.id == fixed.run.id:
        yield "both runs have one id"
    return f"both of inputs {fixed.run.inputs_sha256[:12]}; the one difference is the module"


def _repeats(told: Comparison) -> Check:
    """Each cell was run at least three times, or the bundle says that it is no release evidence."""
    if told.repeats < ENOUGH_REPEATS and told.release_evidence:
        yield f"each cell was run {told.repeats} times, expected {ENOUGH_REPEATS} or more"
    return f"{told.repeats} repeats of each cell"


def _unit(sides: dict[Variant, bundle.Side]) -> Check:
    """Go's own tests are those of the very module and tree, where there are any."""
    said = []
    for variant, side in sides.items():
        if isinstance(side.unit, UnitState):
            said.append(f"{variant}: {side.unit}")
            continue
        results = unit_results.read(side.unit)
        unlike = unit_results.unlike(results, side.run)
        if unlike is not None:
            yield f"{unit_results.name(variant)} belongs to another run: {unlike}"
        problems = [f"{suite.name}: {suite.problem}" for suite in results.suites if suite.problem]
        said.append(f"{variant}: {'; '.join(problems) or 'succeeded'}")
    return ", ".join(said)


def _comparison(
    told: Comparison | None, sides: dict[Variant, bundle.Side], again: list[Comparison]
) -> Check:
    """The comparison, made again from both runs, field by field."""
    again.append(bundle.compared(sides))
    if told is None:
        yield f"{bundle.COMPARISON} could not be read"
    elif told != again[0]:
        for difference in differences(_values(told), _values(again[0])):
            yield f"{bundle.COMPARISON}: {difference}"
    return f"made again, field by field: {again[0].verdict}"


def _values(record: object) -> object:
    """Return a record as JSON's values."""
    return msgspec.json.decode(msgspec.json.encode(record))


def _drawn(root: Path, again: dict[str, bytes], version: str) -> Check:
    """Statement, schemas and reports, drawn again from both runs.

    Another version may draw a report otherwise, which is no reason to believe it: the problem then
    says with which version to look.
    """
    for name, content in again.items():
        path = root / name
        if not path.is_file():
            yield f"{name} is missing"
        elif path.read_bytes() != content:
            hint = f" (drawn by gateway-proof {version}?)" if name in bundle.REPORTS else ""
            yield f"{name} does not follow from the two runs{hint}{_where(path, content)}"
    return f"{', '.join(name for name in again if '/' not in name)}, and the schemas, drawn again"


def _where(path: Path, content: bytes) -> str:
    if path.suffix != ".json":
        return ""
    try:
        found = msgspec.json.decode(path.read_bytes())
    except msgspec.MsgspecError:
        return ""
    return f": {next(differences(found, msgspec.json.decode(content)), 'written otherwise')}"


def _nothing_else(root: Path, known: set[str]) -> Check:
    """A bundle holds two runs, what is drawn from them, and nothing else."""
    number = 0
    for name in store.digests(root):
        number += 1
        if name not in known and name.partition("/")[0] not in [*Variant]:
            yield f"{name} is no file of a bundle"
    return f"{number} files, each of a bundle"
