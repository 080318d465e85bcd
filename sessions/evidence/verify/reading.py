"""Reading the records of evidence strictly: each exactly as its schema has it, and nothing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from containers.records import Cleanup
from sessions.evidence.pair import bundle, unit_results
from sessions.evidence.pair.statement import Statement
from sessions.evidence.record import store
from sessions.evidence.record.json_diff import differences
from sessions.evidence.record.recorded import Recorded
from sessions.evidence.record.records import COMPARISON_SCHEMA, RUN_SCHEMA, Comparison, Run
from sessions.matrix.records import Result

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.evidence.record.check_results import Check, Findings
    from wasm.records import Variant

SCHEMAS = "schemas"
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Side(Recorded):
    """A run as it was read.

    Attributes:
        about: ``baseline``, ``fixed``, or empty for a lone run.
        unit: Go's own tests on its module, as the bundle holds them.
    """

    about: str
    cleanup: Cleanup
    unit: bytes | None = None


def side(found: Findings, root: Path, variant: Variant | None) -> Side | None:
    """Read a run of a bundle, or a lone one; None when its records are not what they must be."""
    folder = root / variant if variant else root
    records: dict[str, Any] = {}
    about = variant or ""
    if not found.look(SCHEMAS, about, lambda: _run(folder, records)):
        return None
    unit = root / unit_results.name(variant) if variant else folder
    if unit.is_file() and not found.look(SCHEMAS, about, lambda: _unit(unit)):
        return None
    content = unit.read_bytes() if unit.is_file() else None
    return Side(
        about=about,
        folder=folder,
        run=records["run"],
        results=records["cells"],
        cleanup=records["cleanup"],
        unit=content,
    )


def pair(found: Findings, root: Path) -> Comparison | None:
    """Read what a bundle says of its runs; None when that is not what it must be."""
    records: dict[str, Any] = {}
    if not found.look(SCHEMAS, "", lambda: _pair(root, records)):
        return None
    comparison: Comparison = records["comparison"]
    return comparison


def _run(folder: Path, records: dict[str, Any]) -> Check:
    records["run"] = yield from _record(folder / store.RUN, Run, RUN_SCHEMA)
    records["cleanup"] = yield from _record(folder / store.CLEANUP, Cleanup)
    records["cells"] = yield from _cells(folder / store.CELLS)
    return f"{store.RUN}, {store.CLEANUP} and {len(records['cells'])} cells, no field unknown"


def _unit(path: Path) -> Check:
    from wasm.gotest.unit import UnitRun  # noqa: PLC0415 - see unit_results

    yield from _record(path, UnitRun)
    return f"unit/{path.name}, no field unknown"


def _pair(root: Path, records: dict[str, Any]) -> Check:
    records["comparison"] = yield from _record(
        root / bundle.COMPARISON, Comparison, COMPARISON_SCHEMA
    )
    yield from _record(root / bundle.STATEMENT, Statement)
    return f"{bundle.COMPARISON} and {bundle.STATEMENT}, no field unknown"


def _record(path: Path, wanted: type[T], schema: str | None = None) -> Any:  # noqa: ANN401 - a generator that returns a record
    """Read one record; what does not come out of it again as it went in is a problem."""
    try:
        content = path.read_bytes()
        record = msgspec.json.decode(content, type=wanted)
    except OSError as error:
        yield f"{path.name} cannot be read ({error.strerror})"
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        yield f"{path.name} is not as its schema says: {error}"
        return None
    version = getattr(record, "schema", None)
    if version != schema:
        yield f"{path.name} is of schema {version}, expected {schema}: made by another version"
    elif store.as_json(record) != content:
        yield from _not_as_written(path.name, content, store.as_json(record))
    return record


def _cells(path: Path) -> Any:  # noqa: ANN401 - likewise
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        yield f"{path.name} cannot be read ({error.strerror})"
        return ()
    results = []
    for number, line in enumerate(lines, 1):
        name = f"{path.name} line {number}"
        try:
            result = msgspec.json.decode(line, type=Result)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            yield f"{name} is not as its schema says: {error}"
            continue
        results.append(result)
        again = store.as_lines([result])
        if again != line:
            yield from _not_as_written(name, line, again)
    return tuple(results)


def _not_as_written(name: str, content: bytes, again: bytes) -> Any:  # noqa: ANN401 - likewise
    """Say where a record holds something else than its schema."""
    told = list(differences(msgspec.json.decode(content), msgspec.json.decode(again)))
    if not told:
        yield f"{name} is not written as a session writes it"
    for difference in told:
        yield f"{name}: {difference}"
