"""The case beside the default matrix: what the built-in fix leaves, and what a better one mends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.base_path import OF_THE_REFERENCE, diff
from tests.integration.running import PROJECT
from wasm.source.variant_tree import REFERENCE_PLUGIN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.running import Session

    Start = Callable[..., Session]
    Report = Callable[..., tuple[int, dict[str, Any], str]]

pytestmark = pytest.mark.timeout(120)

CASES = f"--cases={PROJECT / 'sessions/matrix/more_cases'}"
LOST = ["retry_path", "client_status", "client_body"]


@pytest.fixture(scope="module")
def baseline(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Session:
    session = start("baseline", tmp_path_factory.mktemp("baseline"), CASES)
    assert session.wait() == 0, session.stderr
    return session


def test_the_built_in_fix_loses_the_base_path_and_is_refuted(
    start: Start, report: Report, baseline: Session, tmp_path: Path
) -> None:
    fixed = start("fixed", tmp_path / "fixed", CASES)
    assert fixed.wait() != 0
    _, results = fixed.read()
    failed = {(each.cell.mode, *each.failed_checks) for each in results}
    assert failed == {("retry", *LOST), ("direct",)}
    status, comparison, _ = report(tmp_path, baseline, fixed)
    assert status != 0
    assert comparison["verdict"] == "refuted"


def test_a_fix_that_keeps_the_base_path_is_proven(
    start: Start, report: Report, baseline: Session, tmp_path: Path
) -> None:
    better = tmp_path / "better.patch"
    better.write_text(diff(PROJECT, REFERENCE_PLUGIN, OF_THE_REFERENCE))
    fixed = start("fixed", tmp_path / "fixed", CASES, f"--fixed-patch={better}")
    assert fixed.wait() == 0, fixed.stderr
    status, comparison, _ = report(tmp_path, baseline, fixed)
    assert (status, comparison["verdict"]) == (0, "proven")
    assert comparison["counts"]["baseline"]["mismatch"] == 3
    assert comparison["counts"]["fixed"]["pass"] == 6
