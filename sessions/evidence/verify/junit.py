"""The report of pytest, held against a run's cells."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessions.evidence.record.check_results import Check
    from sessions.evidence.record.recorded import Recorded
    from sessions.matrix.records import Result

JUNIT = "junit.xml"


def junit(side: Recorded) -> Check:
    """The report of pytest has a test for each cell, and the same outcome."""
    if JUNIT not in side.run.files:
        return "none was made"
    text = side.text(JUNIT)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        yield f"{JUNIT} declares entities"
        return ""
    # Entities are refused above: nothing can be expanded or fetched.
    tests = {
        _cell_of(case.get("name", "")): [part.tag for part in case]
        for case in ET.fromstring(text).iter("testcase")  # noqa: S314
    }
    for result in side.results:
        outcome = tests.pop(result.cell.id, None)
        wanted = _outcome(result)
        if (
            outcome is None
            or not {*outcome} >= {*wanted}
            or ("failure" in outcome) != ("failure" in wanted)
        ):
            yield f"{JUNIT} has {outcome} for {result.cell.id}, expected {wanted}"
    if tests and not side.run.failure:
        yield f"{JUNIT} has tests that no cell has: {', '.join(tests)}"
    return f"{len(side.results)} tests, each with its cell's outcome"


def _cell_of(name: str) -> str:
    return name.partition("[")[2].removesuffix("]")


def _outcome(result: Result) -> Sequence[str]:
    """A cell that failed as declared is an expected failure, which JUnit calls skipped."""
    if not result.as_declared:
        return ["failure"]
    return ["skipped"] if result.must_fail else []
