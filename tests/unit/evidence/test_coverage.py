"""docs/evidence.md says where each number of what evidence must hold is; that is kept true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sessions.evidence import verify
from sessions.evidence.pair import schemas
from tests.unit.evidence import recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

DOC = Path(__file__).parents[3] / "docs" / "evidence.md"
_QUOTED = re.compile(r"`([^`]+)`")
NUMBERS = range(1, 18)


def rows() -> dict[int, tuple[list[str], list[str]]]:
    """The fields and the checks of each number."""
    table = DOC.read_text("utf-8").partition("## Coverage")[2]
    found = {}
    for line in table.splitlines():
        parts = [part.strip() for part in line.strip("|").split("|")]
        if parts[0].isdigit():
            number, _, fields, checks = parts
            found[int(number)] = (_QUOTED.findall(fields), _QUOTED.findall(checks))
    return found


ROWS = rows()
FIELDS = sorted({field for fields, _ in ROWS.values() for field in fields})


def below(schema: Any, defs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give every object that a schema may stand for, through references, lists and maps."""
    if "$ref" in schema:
        yield from below(defs[schema["$ref"].rpartition("/")[2]], defs)
    for each in schema.get("anyOf", []):
        yield from below(each, defs)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from below(schema[key], defs)
    if "properties" in schema:
        yield schema


def has(schema: dict[str, Any], path: str) -> bool:
    found = [{"$ref": schema["$ref"]}]
    for name in path.split("."):
        objects = [each for one in found for each in below(one, schema["$defs"])]
        found = [each["properties"][name] for each in objects if name in each["properties"]]
    return bool(found)


def test_every_number_has_fields_and_checks() -> None:
    assert [*ROWS] == [*NUMBERS]
    assert all(fields and checks for fields, checks in ROWS.values())


@pytest.mark.parametrize("field", [f for f in FIELDS if not f.startswith("file: ")])
def test_every_field_is_in_its_schema(field: str) -> None:
    record, _, path = field.partition(": ")
    assert has(schemas.of(schemas.types()[record]), path)


def test_a_field_that_is_not_there_would_be_seen() -> None:
    schema = schemas.of(schemas.types()["run"])
    assert not has(schema, "module.source.approved")
    assert not has(schema, "approved")


def test_every_file_is_in_a_bundle(tmp_path: Path) -> None:
    folder = recorded.made(tmp_path).folder
    named = [f.removeprefix("file: ") for f in FIELDS if f.startswith("file: ")]
    assert len(named) > 10
    for name in named:
        assert (folder / name).is_file() or (folder / "fixed" / name).is_file(), name


def test_every_check_is_one_of_verify_and_none_is_left_out() -> None:
    assert {check for _, checks in ROWS.values() for check in checks} == {*verify.CHECKS}
