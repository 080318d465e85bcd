"""One test per cell: the claim of Higress #4396, at runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessions.matrix import cells
from sessions.matrix.verdict import ProtocolMismatch, Verdict
from wasm.foundation import signals

if TYPE_CHECKING:
    from containers.testbed import Testbed
    from sessions.evidence.record.recorder import Recorder
    from sessions.matrix.case import Case
    from sessions.matrix.progress import Shown
    from sessions.matrix.records import Cell


def test_cell(testbed: Testbed, recorder: Recorder, shown: Shown, case: Case, cell: Cell) -> None:
    signals.raise_taken()
    result = cells.run(testbed, case, cell, recorder.variant, recorder.results)
    recorder.add(result)
    shown.cell(result)
    if result.verdict is Verdict.MISMATCH and result.as_declared:
        raise ProtocolMismatch(result.reason)
    if not result.as_declared:
        pytest.fail(result.finding, pytrace=False)
