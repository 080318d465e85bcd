"""Recording a run: whole however it ends, with a sentence when it is not what was claimed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from containers.records import Cleanup, ProcessSeen, Timings
from sessions.evidence import store
from sessions.evidence.recorder import Recorder
from sessions.matrix.case import Mode
from tests.unit.evidence.runs import CASES, REPEATS, facts, module, results
from tests.unit.matrix.observations import ADDRESS, CONTROL, KLING, result, right
from wasm.records import Variant, sha256_of

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.matrix.cells import Result

B, F = Variant.BASELINE, Variant.FIXED
CLEANUP = Cleanup(
    processes=[ProcessSeen(name="gateway", pid=1, exit_status=0, ended=True)],
    refused={"gateway 127.0.0.1:1": True},
)


def closed_testbed(**changes: Any) -> Any:
    fields = {
        "facts": facts(),
        "cleanup": CLEANUP,
        "timings": Timings(gateway_ready_s=3.0, opened_s=4.0, closed_s=0.5),
        "upstream_address": ADDRESS,
        "gateway_urls": {"kling-text-to-video": "http://127.0.0.1:1"},
    }
    return SimpleNamespace(**{**fields, **changes})


def recorder(folder: Path, variant: Variant, found: list[Result] | None = None) -> Recorder:
    made = Recorder(folder / f"a-{variant}", variant, CASES, REPEATS)
    made.built(module(variant))
    made.opened(closed_testbed())
    for each in results(variant) if found is None else found:
        made.add(each)
    return made


@pytest.mark.parametrize("variant", Variant)
def test_a_run_to_its_end_is_written_whole_and_read_back(tmp_path: Path, variant: Variant) -> None:
    made = recorder(tmp_path, variant)
    assert made.summary == ""
    run = made.finish()
    assert run is not None
    read, cells = store.read_run(made.folder)
    assert read == run
    assert cells == tuple(results(variant))
    assert run.id == f"a-{variant}"
    assert (run.variant, run.cases, run.repeats) == (variant, CASES, REPEATS)
    assert (run.module, run.testbed) == (module(variant), facts())
    assert run.upstream_address == ADDRESS
    assert run.failure == ""
    mismatch = 2 if variant is B else 0
    assert (run.counts.cells, run.counts.mismatch, run.counts.passed) == (8, mismatch, 8 - mismatch)
    assert run.timings.gateway_ready_s == 3.0
    assert run.exchanges_s == pytest.approx(8 * 0.002)
    assert run.started_at <= run.finished_at
    assert run.first_keys == {"dummy-key-a": 8}
    assert run.listeners == {"kling-text-to-video": "http://127.0.0.1:1"}
    digests = store.digests(made.folder)
    del digests[store.RUN]
    assert run.files == digests
    assert "cells.jsonl" in run.files
    assert run.command[0].startswith("python")
    assert (run.assertion_command, run.cleanup_command) == (
        ["nox", "-s", "report", "verify"],
        ["nox", "-s", "clean"],
    )
    fix = made.folder / "config" / "fix.patch"
    assert fix.exists() is (variant is F)
    assert variant is B or fix.read_bytes() == b"--- a\n+++ b\n"
    cleanup = msgspec.json.decode((made.folder / store.CLEANUP).read_bytes(), type=Cleanup)
    assert cleanup == CLEANUP


def test_both_variants_have_the_same_inputs_and_another_testbed_has_others(tmp_path: Path) -> None:
    baseline, fixed = recorder(tmp_path, B).finish(), recorder(tmp_path, F).finish()
    other = recorder(tmp_path / "other", F)
    other.opened(closed_testbed(facts=facts(upstream_sha256="7" * 64)))
    third = other.finish()
    assert baseline is not None
    assert fixed is not None
    assert third is not None
    assert baseline.inputs_sha256 == fixed.inputs_sha256 != third.inputs_sha256


SECRET = "sk-live-0123456789abcdef"  # noqa: S105 - made up


@pytest.mark.parametrize("name", ["logs/gateway.log", "logs/upstream.log", "junit.xml"])
def test_a_credential_in_what_others_wrote_is_masked_and_fails_the_run(
    tmp_path: Path, name: str
) -> None:
    made = recorder(tmp_path, F)
    path = made.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"before \xff\n" + f"Bearer dummy-key-a got {SECRET}\n".encode() + b"after\n")
    run = made.finish()
    assert run is not None
    assert path.read_bytes() == (
        b"before \xff\nBearer dummy-key-a got masked-24-characters\nafter\n"
    )
    assert (
        run.failure
        == made.summary
        == (
            f"what looks like a credential was found in {name} and masked; expected dummies alone; "
            "take it out of the machine's or the plugin's settings"
        )
    )
    assert run.files[name] == sha256_of(path.read_bytes())


def test_without_a_module_there_is_no_run(tmp_path: Path) -> None:
    made = Recorder(tmp_path / "none", B, CASES, REPEATS)
    made.failure = "Go does not compile"
    assert made.finish() is None
    assert not made.folder.exists()
    assert made.summary == "Go does not compile"


def test_a_testbed_that_did_not_open_is_recorded_with_its_failure(tmp_path: Path) -> None:
    made = Recorder(tmp_path / "b", B, CASES, REPEATS)
    made.built(module(B))
    made.failure = "the gateway exited with status 3 before it was ready"
    run = made.finish()
    assert run is not None
    read, cells = store.read_run(made.folder)
    assert read == run
    assert (read.testbed, read.upstream_address, cells) == (None, "", ())
    assert read.failure == made.summary == "the gateway exited with status 3 before it was ready"
    assert read.counts.cells == 0


def test_an_interrupted_run_is_recorded_with_the_cells_it_had(tmp_path: Path) -> None:
    made = recorder(tmp_path, F, results(F)[:3])
    made.failure = "interrupted"
    made.finish()
    read, cells = store.read_run(made.folder)
    assert len(cells) == 3
    assert read.failure == made.summary == "interrupted"


def test_a_cell_that_is_not_as_declared_is_named(tmp_path: Path) -> None:
    assert recorder(tmp_path, F, results(F, shows_defect=True)).summary == (
        "fixed: 2 of 8 cells are not as declared, first kling-text-to-video/retry/1: expected no "
        "check to fail, failed: retry_path, retry_body, client_status, client_body"
    )


def test_a_baseline_that_passes_is_not_as_declared(tmp_path: Path) -> None:
    assert recorder(tmp_path, B, results(B, shows_defect=False)).summary == (
        "baseline: 2 of 8 cells are not as declared, first kling-text-to-video/retry/1: expected "
        "retry_path, retry_body, client_status, client_body to fail, failed: none"
    )


def test_an_inconclusive_cell_is_named_with_its_reason(tmp_path: Path) -> None:
    seen = msgspec.structs.replace(right(KLING, Mode.RETRY), response=None, fault="it is gone")
    found = [result(KLING, Mode.RETRY, F, seen), *results(F)[1:]]
    assert recorder(tmp_path, F, found).summary == (
        "fixed: 1 of 8 cells are not as declared, first kling-text-to-video/retry/1: inconclusive: "
        "it is gone"
    )


@pytest.mark.parametrize("number", [0, 7])
def test_a_run_with_fewer_cells_than_planned_is_not_what_it_claims(
    tmp_path: Path, number: int
) -> None:
    assert recorder(tmp_path, F, results(F)[:number]).summary == (
        f"fixed: only {number} of 8 planned cells were run"
    )


def test_a_baseline_in_which_nothing_had_to_fail_reproduces_nothing(tmp_path: Path) -> None:
    """T19, as the baseline's own session sees it."""
    for variant in Variant:
        made = Recorder(tmp_path / variant, variant, (CONTROL,), REPEATS)
        for each in results(variant):
            if each.cell.case == CONTROL.name:
                made.add(each)
        assert made.summary == (
            "baseline: no cell had to fail, so nothing was reproduced; expected at least one case "
            "with `must_fail`; choose such a one with --case or --cases"
            if variant is B
            else ""
        )
