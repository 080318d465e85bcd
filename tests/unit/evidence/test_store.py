"""Evidence on disk: written, sealed, and read back as it was."""

from __future__ import annotations

import hashlib
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from sessions.evidence.record import store
from tests.unit.evidence.runs import results, run
from wasm.foundation.errors import EvidenceError
from wasm.records import Variant

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path) -> Path:
    store.write_json(folder / store.RUN, run(Variant.BASELINE))
    store.write_cells(folder, results(Variant.BASELINE))
    return folder


def test_a_run_and_its_cells_read_back_as_they_were(tmp_path: Path) -> None:
    folder = written(tmp_path / "run")
    found, cells = store.read_run(folder)
    assert found == run(Variant.BASELINE)
    assert cells == tuple(results(Variant.BASELINE))
    assert (folder / store.CELLS).read_bytes().count(b"\n") == len(cells) == 8


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError) as caught:
        store.read_run(tmp_path)
    assert str(caught.value) == (
        f"no run in {tmp_path} (No such file or directory: run.json); expected the folder that a "
        "runtime session wrote; run `nox -s runtime-baseline runtime-fixed`"
    )


@pytest.mark.parametrize("file", ["run.json", "cells.jsonl"])
def test_a_pipe_in_the_place_of_a_record_is_not_waited_for(tmp_path: Path, file: str) -> None:
    written(tmp_path)
    (tmp_path / file).unlink()
    os.mkfifo(tmp_path / file)
    with pytest.raises(EvidenceError) as caught:
        store.read_run(tmp_path)
    assert str(caught.value).startswith(f"no run in {tmp_path} (Not a regular file: {file}); ")


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("run.json", b"{", "Input data was truncated"),
        ("run.json", b'{"schema": "gateway-proof/run/1"}', "Object missing required field `id`"),
        ("run.json", b'{"id": "\xff"}', "Invalid UTF-8 encoded string"),
        ("cells.jsonl", b'{"cell": {"case": "a"', "Input data was truncated"),
        ("cells.jsonl", b"\n", "Input data was truncated"),
    ],
)
def test_files_that_are_not_what_we_write_are_refused_with_the_reason(
    tmp_path: Path, file: str, content: bytes, reason: str
) -> None:
    written(tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(EvidenceError) as caught:
        store.read_run(tmp_path)
    assert str(caught.value) == (
        f"the run in {tmp_path} cannot be read: {reason}; expected the files that a runtime "
        "session wrote, unchanged; run it again"
    )


def test_the_seal_covers_every_file_however_deep_or_hidden_save_itself(tmp_path: Path) -> None:
    for name in ("run.json", "logs/gateway.log", ".hidden", "baseline/SHA256SUMS", "with space"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "empty").mkdir()
    digest = store.seal(tmp_path)
    sums = (tmp_path / store.SUMS).read_bytes()
    assert digest == hashlib.sha256(sums).hexdigest()
    assert [line.split("  ", 1)[1] for line in sums.decode().splitlines()] == [
        ".hidden",
        "baseline/SHA256SUMS",
        "logs/gateway.log",
        "run.json",
        "with space",
    ]
    check = ["sha256sum", "--check", "--strict", "--quiet", store.SUMS]
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0


def test_a_second_seal_is_the_same_and_a_changed_file_breaks_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    assert store.seal(tmp_path) == store.seal(tmp_path)
    (tmp_path / "a").write_text("b")
    check = ["sha256sum", "--check", "--status", store.SUMS]
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 1
