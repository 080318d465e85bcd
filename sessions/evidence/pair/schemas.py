"""The records' schemas as JSON Schema (2020-12), as a bundle carries them.

They are made from the very types that the records are read with, so they cannot differ from them.
Nothing may hold a field that its schema does not name.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from containers.records import Cleanup
from sessions.evidence.pair.statement import Statement
from sessions.evidence.record.records import Comparison, Run
from sessions.matrix.records import Result

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def types() -> dict[str, Any]:
    """Return every record that a bundle may hold, by the name of its schema."""
    from wasm.gotest.unit import UnitRun  # noqa: PLC0415 - see unit_results

    return {
        "run": Run,
        "cell": Result,
        "cleanup": Cleanup,
        "comparison": Comparison,
        "statement": Statement,
        "unit": UnitRun,
    }


@functools.cache
def files() -> dict[str, bytes]:
    """Return the schemas as files of a bundle: path -> content."""
    return {
        f"schemas/{name}.schema.json": msgspec.json.format(
            msgspec.json.encode(of(record)), indent=2
        )
        + b"\n"
        for name, record in types().items()
    }


def of(record: Any) -> dict[str, Any]:  # noqa: ANN401 - any type of a record
    """Return the JSON Schema of a record."""
    schema: dict[str, Any] = msgspec.json.schema(record)
    _close(schema)
    return {"$schema": _DIALECT, **schema}


def _close(schema: Any) -> None:  # noqa: ANN401 - JSON's values
    """Let every object have no other fields than those it names."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for below in schema.values():
            _close(below)
    elif isinstance(schema, list):
        for below in schema:
            _close(below)
