"""Mutants joined with their runs: who killed whom, and what is no kill."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from sessions.evidence.record import store
from sessions.evidence.report import mutants
from sessions.matrix.case import Mode
from tests.unit.evidence.runs import SOURCE, module, results, run
from tests.unit.matrix.observations import KLING, result, right
from wasm.fix_4396.mutants import MutantRecord, MutantRun
from wasm.foundation.errors import EvidenceError
from wasm.records import Variant

if TYPE_CHECKING:
    from pathlib import Path

FIXED = Variant.FIXED
CELLS = ["kling-text-to-video/retry/1", "kling-text-to-video/retry/2"]


def record(name: str, **changes: Any) -> MutantRecord:
    """A mutant that the tests kill and the matrix does not see."""
    fields: dict[str, Any] = {
        "id": name,
        "says": f"{name} is wrong",
        "visible_at_runtime": False,
        "patch": f"patches/{name}.patch",
        "patch_sha256": "a" * 64,
        "places": {},
        "module_sha256": None,
        "killed_by": ["TestA", "TestB"],
        "passed": 5,
        "seconds": 1.0,
    }
    return MutantRecord(**{**fields, **changes})


HIDDEN = record("hidden")
VISIBLE = record("visible", visible_at_runtime=True, module_sha256=module(FIXED).sha256)


FIX = record("fix", visible_at_runtime=True, module_sha256=module(FIXED).sha256, killed_by=[])


def recorded(folder: Path, *each: MutantRecord, fix_fails: bool = False) -> Path:
    """A folder as ``python -m wasm mutants`` leaves it, with the matrix run on the fix."""
    found = MutantRun(
        source=SOURCE,
        go_version="go",
        command=["go", "test"],
        tests_of_the_fix=7,
        fix=FIX,
        mutants=[*each],
    )
    store.write_json(folder / mutants.RECORD, found)
    store.write_json(folder / "runs/fix" / store.RUN, run(FIXED))
    store.write_cells(folder / "runs/fix", results(FIXED, shows_defect=fix_fails))
    return folder


def ran(folder: Path, *, shows_defect: bool = True, **changes: Any) -> None:
    """The matrix ran on the visible mutant."""
    store.write_json(folder / "runs/visible" / store.RUN, run(FIXED, **changes))
    store.write_cells(folder / "runs/visible", results(FIXED, shows_defect=shows_defect))


def refusal(folder: Path) -> str:
    """The sentence with which a folder is refused."""
    with pytest.raises(EvidenceError) as refused:
        mutants.main([str(folder)])
    return str(refused.value)


def test_a_table_and_the_record_say_who_killed_whom(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path, VISIBLE, HIDDEN)
    ran(tmp_path)
    mutants.main([str(tmp_path)])
    assert capsys.readouterr().out.splitlines() == [
        "mutant    regression tests   matrix        what is wrong about it",
        "visible   killed by 2        killed by 2   visible is wrong",
        "hidden    killed by 2        not visible   hidden is wrong",
        "7 tests pass on the fix itself",
        f"evidence  {tmp_path}",
    ]
    assert mutants.joined(tmp_path).mutants == [replace(VISIBLE, killed_at_runtime=CELLS), HIDDEN]


@pytest.mark.parametrize(
    ("each", "survivor", "row"),
    [
        (replace(HIDDEN, killed_by=[]), "hidden survives the regression tests", "survives"),
        (VISIBLE, "visible survives the matrix", "killed by 2        survives"),
    ],
)
def test_a_survivor_is_in_the_table_and_fails(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    each: MutantRecord,
    survivor: str,
    row: str,
) -> None:
    recorded(tmp_path, each)
    ran(tmp_path, shows_defect=False)
    assert refusal(tmp_path) == (
        f"{survivor}; expected every wrong fix to be caught; add a test that fails on it to "
        "wasm/go/regression, or a case"
    )
    assert row in capsys.readouterr().out.splitlines()[1]


def test_no_mutant_at_all_proves_nothing(tmp_path: Path) -> None:
    assert refusal(recorded(tmp_path)).startswith("there was no mutant; expected every wrong fix")


def test_a_gateway_that_died_is_no_kill(tmp_path: Path) -> None:
    recorded(tmp_path, VISIBLE)
    ran(tmp_path, failure="the gateway ended with status 1.")
    assert refusal(tmp_path) == (
        "the matrix on the mutant visible is inconclusive: the gateway ended with status 1; "
        "expected an observation of every cell; run `nox -s mutants` again"
    )


def test_a_matrix_that_fails_on_the_fix_too_kills_nothing(tmp_path: Path) -> None:
    recorded(tmp_path, VISIBLE, fix_fails=True)
    ran(tmp_path)
    assert refusal(tmp_path) == (
        f"2 cells of the matrix fail on the fix itself, first {CELLS[0]}; expected all to hold, or "
        "it catches nothing; run `nox -s runtime-fixed` to see why"
    )


def test_a_fix_that_the_matrix_did_not_see_proves_nothing(tmp_path: Path) -> None:
    recorded(tmp_path, VISIBLE)
    ran(tmp_path)
    (tmp_path / "runs/fix" / store.RUN).unlink()
    assert refusal(tmp_path).startswith(f"no run in {tmp_path / 'runs/fix'} (No such file")


def test_a_cell_without_an_observation_is_no_kill(tmp_path: Path) -> None:
    recorded(tmp_path, VISIBLE)
    ran(tmp_path)
    silent = msgspec.structs.replace(right(KLING, Mode.RETRY), response=None, attempts=())
    cell = result(KLING, Mode.RETRY, FIXED, silent)
    store.write_cells(tmp_path / "runs/visible", [cell])
    assert refusal(tmp_path).startswith(
        f"the matrix on the mutant visible is inconclusive: {cell.reason.rstrip('.')}; expected"
    )


def test_a_run_of_another_module_is_no_kill(tmp_path: Path) -> None:
    recorded(tmp_path, VISIBLE)
    ran(tmp_path, module=replace(module(FIXED), sha256="f" * 64))
    assert refusal(tmp_path) == (
        f"the run of the mutant visible is of the module {'f' * 12}, expected "
        f"{module(FIXED).sha256[:12]}; run `nox -s mutants` again"
    )


def test_a_run_that_is_missing_is_no_kill(tmp_path: Path) -> None:
    recorded(tmp_path, VISIBLE)
    assert refusal(tmp_path).startswith(f"no run in {tmp_path / 'runs/visible'} (No such file")


@pytest.mark.parametrize("content", [None, b"{", b'{"mutants": 1}', b"\xff"])
def test_a_record_that_is_not_ours_is_refused(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / mutants.RECORD).write_bytes(content)
    assert refusal(tmp_path).startswith(f"{tmp_path / mutants.RECORD} cannot be read (")
