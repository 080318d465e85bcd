"""Folders of runs and bundles, and the links to the latest."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sessions.evidence.record import folders, store
from wasm.foundation.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Callable


PROJECT = Path(__file__).parents[3]


def test_many_runs_in_the_same_second_get_folders_of_their_own(tmp_path: Path) -> None:
    made = [folders.new_run(tmp_path, "baseline") for _ in range(50)]
    assert len(set(made)) == 50
    assert all(folder.is_dir() and folder.parent == tmp_path / "runs" for folder in made)
    assert all(re.fullmatch(r"\d{8}T\d{6}Z-baseline-[0-9a-f]{6}", each.name) for each in made)


def test_a_bundle_has_a_folder_of_its_own_too(tmp_path: Path) -> None:
    folder = folders.new_bundle(tmp_path)
    assert folder.parent == tmp_path / "bundles"
    assert re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{6}", folder.name)


def test_the_link_to_the_latest_is_relative_and_moves_with_the_whole(tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    run = folders.new_run(evidence, "baseline")
    (run / "run.json").write_text("{}")
    folders.point_latest(evidence, "baseline", run)
    link = folders.latest(evidence, "baseline")
    assert link.readlink() == Path("../runs", run.name)
    assert link.resolve() == run
    moved = evidence.rename(tmp_path / "moved")
    assert (folders.latest(moved, "baseline") / "run.json").read_text() == "{}"


def test_the_link_is_replaced_in_one_step_and_leaves_no_draft(tmp_path: Path) -> None:
    runs = [folders.new_run(tmp_path, "fixed") for _ in range(2)]
    link = folders.latest(tmp_path, "fixed")
    folders.point_latest(tmp_path, "fixed", runs[0])
    held = os.open(link.parent, os.O_RDONLY)
    try:
        folders.point_latest(tmp_path, "fixed", runs[1])
        assert os.readlink("fixed", dir_fd=held) == f"../runs/{runs[1].name}"
    finally:
        os.close(held)
    assert [path.name for path in link.parent.iterdir()] == ["fixed"]


@pytest.mark.parametrize("loop", ["latest/baseline", "latest"])
def test_links_that_lead_to_themselves_are_no_run(tmp_path: Path, loop: str) -> None:
    link = folders.latest(tmp_path, "baseline")
    (tmp_path / loop).parent.mkdir(exist_ok=True)
    (tmp_path / loop).symlink_to(Path(loop).name)

    assert folders.target(link) == link
    with pytest.raises(EvidenceError, match=f"no run in {link}"):
        store.read_run(folders.target(link))


def test_the_latest_is_forgotten_and_its_run_stays(tmp_path: Path) -> None:
    run = folders.new_run(tmp_path, "fixed")
    folders.point_latest(tmp_path, "fixed", run)
    folders.forget_latest(tmp_path, "fixed")
    assert not folders.latest(tmp_path, "fixed").is_symlink()
    assert run.is_dir()


def test_a_link_whose_run_was_removed_is_forgotten_too(tmp_path: Path) -> None:
    run = folders.new_run(tmp_path, "fixed")
    folders.point_latest(tmp_path, "fixed", run)
    run.rmdir()
    folders.forget_latest(tmp_path, "fixed")
    assert not folders.latest(tmp_path, "fixed").is_symlink()


def test_forgetting_what_is_not_there_is_nothing(tmp_path: Path) -> None:
    folders.forget_latest(tmp_path, "baseline")
    folders.forget_latest(tmp_path / "missing", "baseline")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_link_s_place_is_named_and_left_alone(tmp_path: Path) -> None:
    run = folders.new_run(tmp_path, "fixed")
    link = folders.latest(tmp_path, "fixed")
    (link / "mine").mkdir(parents=True)
    steps: list[Callable[[], object]] = [
        lambda: folders.point_latest(tmp_path, "fixed", run),
        lambda: folders.forget_latest(tmp_path, "fixed"),
    ]
    for step in steps:
        with pytest.raises(EvidenceError) as caught:
            step()
        assert str(caught.value) == (
            f"{link} cannot be replaced or written to (Is a directory); expected what we make "
            "there or nothing; move it away, or name another folder with --evidence"
        )
    assert [path.name for path in link.parent.iterdir()] == ["fixed"]
    assert (link / "mine").is_dir()


def test_what_is_in_the_way_of_a_link_is_named_and_a_link_is_left_alone(tmp_path: Path) -> None:
    folders.refuse_latest_in_the_way(tmp_path / "missing", "fixed")
    run = folders.new_run(tmp_path, "fixed")
    folders.point_latest(tmp_path, "fixed", run)
    folders.refuse_latest_in_the_way(tmp_path, "fixed")
    run.rmdir()
    folders.refuse_latest_in_the_way(tmp_path, "fixed")
    assert folders.latest(tmp_path, "fixed").is_symlink()
    (folders.latest(tmp_path, "baseline") / "mine").mkdir(parents=True)
    with pytest.raises(EvidenceError, match="Is a directory"):
        folders.refuse_latest_in_the_way(tmp_path, "baseline")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "latest").write_text("mine")
    with pytest.raises(EvidenceError, match="Not a directory"):
        folders.refuse_latest_in_the_way(tmp_path / "other", "baseline")


# --- What killed processes leave ------------------------------------------------------------------

WRITES = """
import sys, time
from pathlib import Path
from sessions.evidence.record import folders, store
evidence = Path(sys.argv[1])
for folder in (folders.new_run(evidence, "fixed"), folders.new_bundle(evidence)):
    (folder / "cells.jsonl").write_text("{")
(evidence / "bundles" / f".{folder.name}.zip.draft").write_text("PK")
print("written", flush=True)
time.sleep(1000)
"""


def test_what_a_killed_process_left_half_written_is_named_and_not_while_it_lives(
    tmp_path: Path,
) -> None:
    """T33."""
    argv = [sys.executable, "-c", WRITES, str(tmp_path)]
    with subprocess.Popen(argv, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        assert [*folders.unfinished(tmp_path)] == []
        writer.kill()
    (run,), (bundle,) = ([*(tmp_path / shelf).glob("2*")] for shelf in ("runs", "bundles"))
    draft = bundle.with_name(f".{bundle.name}.zip.draft")
    assert [*folders.unfinished(tmp_path)] == [run, bundle, draft]
    folders.seal(run)
    assert [*folders.unfinished(tmp_path)] == [bundle, draft]


def test_what_is_finished_or_is_no_evidence_of_ours_is_not_taken_for_half_written(
    tmp_path: Path,
) -> None:
    for name, file in (("fixed", folders.SUMS), ("unit-fixed", "unit.json")):
        run = folders.new_run(tmp_path, name)
        (run / file).touch()
        folders.release(run)
    (tmp_path / "runs" / "mine").mkdir()
    (tmp_path / "runs" / "20260101T000000Z-fixed-abcdef").symlink_to(tmp_path / "runs" / "mine")
    assert [*folders.unfinished(tmp_path)] == []
    assert [*folders.unfinished(tmp_path / "missing")] == []


@pytest.mark.parametrize(
    ("record", "opened"),
    [('{"testbed": {}}', True), ('{"testbed": null}', False), ("{", False), ("[]", False)],
)
def test_a_run_has_come_as_far_as_a_testbed_when_its_record_says_so(
    tmp_path: Path, record: str, *, opened: bool
) -> None:
    assert not folders.opened(tmp_path)
    (tmp_path / "run.json").write_text(record)
    assert folders.opened(tmp_path) is opened


def test_an_evidence_folder_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    evidence = tmp_path / "file"
    evidence.write_text("mine")
    folders.forget_latest(evidence, "baseline")
    steps: dict[str, Callable[[], object]] = {
        "runs": lambda: folders.new_run(evidence, "baseline"),
        "bundles": lambda: folders.new_bundle(evidence),
    }
    for name, step in steps.items():
        with pytest.raises(EvidenceError) as caught:
            step()
        assert str(caught.value) == (
            f"no folder can be made in {evidence}/{name} (Not a directory); expected one that can "
            "be written to; name another with --evidence"
        )
    assert evidence.read_text() == "mine"


def test_a_file_in_the_place_of_the_folder_of_links_is_named_and_left_alone(tmp_path: Path) -> None:
    run = folders.new_run(tmp_path, "fixed")
    (tmp_path / "latest").write_text("mine")
    steps: dict[str, Callable[[], object]] = {
        "File exists": lambda: folders.point_latest(tmp_path, "fixed", run),
        "Not a directory": lambda: folders.forget_latest(tmp_path, "fixed"),
    }
    for reason, step in steps.items():
        with pytest.raises(EvidenceError) as caught:
            step()
        assert str(caught.value) == (
            f"{tmp_path}/latest cannot be replaced or written to ({reason}); expected what we make "
            "there or nothing; move it away, or name another folder with --evidence"
        )
    assert (tmp_path / "latest").read_text() == "mine"


def test_an_evidence_folder_that_may_not_be_written_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests may be run by root, who may write anywhere: the system's answer is put in."""

    def denied(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    run = folders.new_run(tmp_path, "fixed")
    (tmp_path / "latest").mkdir()
    for name in ("mkdir", "unlink", "symlink_to"):
        monkeypatch.setattr(Path, name, denied)
    told = []
    steps: list[Callable[[], object]] = [
        lambda: folders.new_run(tmp_path, "fixed"),
        lambda: folders.forget_latest(tmp_path, "fixed"),
        lambda: folders.point_latest(tmp_path, "fixed", run),
    ]
    for step in steps:
        with pytest.raises(EvidenceError) as caught:
            step()
        told.append(str(caught.value))
    in_the_way = (
        f"{tmp_path}/latest cannot be replaced or written to (Permission denied); expected what we "
        "make there or nothing; move it away, or name another folder with --evidence"
    )
    assert told == [
        (
            f"no folder can be made in {tmp_path}/runs (Permission denied); expected one that can "
            "be written to; name another with --evidence"
        ),
        in_the_way,
        in_the_way,
    ]
