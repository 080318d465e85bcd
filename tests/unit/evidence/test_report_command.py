"""``python -m sessions.evidence report``: two runs in, a bundle and a verdict out."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sessions.evidence import __main__ as command
from sessions.evidence.record import folders, store
from tests.unit.evidence import recorded as by_hand
from wasm.foundation.errors import EvidenceError
from wasm.records import Variant

PROJECT = Path(__file__).parents[3]


def recorded(evidence: Path, *, fixed_fails: bool = False) -> None:
    for variant in Variant:
        defect = variant is Variant.BASELINE or fixed_fails
        folder = folders.new_run(evidence, variant)
        shutil.rmtree(folder)
        by_hand.write(folder, variant, by_hand.results(variant, shows_defect=defect))
        folders.point_latest(evidence, variant, folder)


def report(evidence: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sessions.evidence", "report", f"--evidence={evidence}"],
        cwd=PROJECT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_proven_pair_becomes_a_sealed_bundle_and_status_0(tmp_path: Path) -> None:
    recorded(tmp_path)
    done = report(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("proven: ")
    bundle = folders.latest(tmp_path, "bundle")
    comparison = json.loads((bundle / "comparison.json").read_text())
    assert comparison["verdict"] == "proven"
    assert comparison["counts"]["fixed"]["pass"] == 12
    for variant in Variant:
        assert store.read_run(bundle / variant) == store.read_run(folders.latest(tmp_path, variant))
    check = ["sha256sum", "--check", "--strict", "--quiet", store.SUMS]
    assert subprocess.run(check, cwd=bundle, check=False).returncode == 0
    archive = bundle.resolve().with_name(f"{bundle.resolve().name}.zip")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert f"archive {archive}\n        SHA-256 {digest}\n" in done.stdout


def test_a_refuted_pair_becomes_a_bundle_too_and_ends_in_its_sentence(tmp_path: Path) -> None:
    recorded(tmp_path, fixed_fails=True)
    done = report(tmp_path)
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1].startswith("refuted: fixed: kling-text-to-video/retry/1")
    assert done.stderr.startswith("error: refuted: fixed: kling-text-to-video/retry/1, ")
    assert done.stderr.count("\n") == 1
    comparison = json.loads((folders.latest(tmp_path, "bundle") / "comparison.json").read_text())
    assert comparison["verdict"] == "refuted"


def test_without_runs_there_is_a_sentence_and_no_bundle(tmp_path: Path) -> None:
    done = report(tmp_path / "evidence")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"error: no run in {tmp_path}/evidence/latest/baseline (No such file or directory: "
        "run.json); expected the folder that a runtime session wrote; run `nox -s runtime-baseline "
        "runtime-fixed`\n"
    )
    assert not (tmp_path / "evidence").exists()


def test_a_bundle_that_cannot_be_finished_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path)

    def fails(_folder: Path) -> str:
        raise EvidenceError("no space left")

    monkeypatch.setattr(store, "seal", fails)
    with pytest.raises(EvidenceError, match="no space left"):
        command.main(["report", f"--evidence={tmp_path}"])
    assert list((tmp_path / "bundles").iterdir()) == []
    assert not folders.latest(tmp_path, "bundle").is_symlink()
