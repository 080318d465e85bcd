"""Recording a run: whole however it ends, with a sentence when it is not what was claimed."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest

from containers.records import Cleanup, ProcessSeen, Timings
from sessions.evidence.record import store
from sessions.evidence.record.recorder import Recorder
from sessions.matrix import cells
from sessions.matrix.case import Mode
from tests.unit.evidence import recorded
from tests.unit.evidence.runs import CASES, FIX, REPEATS, SOURCE, facts, module
from tests.unit.matrix.observations import ADDRESS, CONTROL, KLING, result, right
from wasm.records import Patch, Variant, sha256_of

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.matrix.records import Result

B, F = Variant.BASELINE, Variant.FIXED
PANIC = (
    "[2026-11-30 07:50:03.013][689][error][wasm] [source/extensions/common/wasm/context.cc:1157] "
    "wasm log plugin kling plugin: [ai-proxy] [nil] [kling/direct/1] recovered from panic x"
)
CLEANUP = Cleanup(
    processes=[ProcessSeen(name="gateway", pid=1, exit_status=0, ended=True)],
    refused={"gateway 127.0.0.1:1": True},
)


def results(variant: Variant, *, shows_defect: bool | None = None) -> list[Result]:
    return recorded.results(variant, REPEATS, shows_defect=shows_defect)


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
    found = results(variant) if found is None else found
    for each in found:
        made.add(each)
    recorded.write_logs(made.folder, [each for each in found if each.response])
    return made


@pytest.mark.parametrize("variant", Variant)
def test_a_run_to_its_end_is_written_whole_and_read_back(tmp_path: Path, variant: Variant) -> None:
    made = recorder(tmp_path, variant)
    assert made.summary == ""
    run = made.finish()
    assert run is not None
    read, those = store.read_run(made.folder)
    assert read == run
    assert those == tuple(results(variant))
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
    assert run.first_keys == {"dummy-key-a": 4, "dummy-key-b": 4}
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


@pytest.mark.parametrize(
    "name",
    ["logs/gateway.log", "logs/upstream.log", "logs/relay.log", "junit.xml", "config/x.json"],
)
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
            "take it out of the machine's or the plugin's settings, or out of your changes"
        )
    )
    assert run.files[name] == sha256_of(path.read_bytes())


def test_a_credential_in_changes_that_are_not_published_is_masked_and_fails_the_run(
    tmp_path: Path,
) -> None:
    patch = f"--- a\n+++ b\n context {SECRET}\n-old {SECRET}\n+new {SECRET}\n\xff\n"
    change = Patch.of(patch.encode("latin-1"))
    made = recorder(tmp_path, B)
    made.built(module(B, dirty=True, uncommitted=change))
    run = made.finish()
    assert run is not None
    assert made.summary.startswith(
        "what looks like a credential was found in config/uncommitted.patch and masked;"
    )
    # What stands around a change is published already.
    masked = patch.replace(f"+new {SECRET}", "+new masked-24-characters").encode("latin-1")
    assert run.module.source.uncommitted == Patch.of(masked)
    assert (made.folder / store.UNCOMMITTED).read_bytes() == masked


def test_a_credential_in_the_record_itself_is_masked_and_fails_the_run(tmp_path: Path) -> None:
    made = recorder(tmp_path, F)
    made.opened(closed_testbed(facts=facts(notes=[f"a note with {SECRET}"])))
    run = made.finish()
    assert run is not None
    assert run.testbed is not None
    assert run.testbed.notes == ["a note with masked-24-characters"]
    assert run.failure.startswith("what looks like a credential was found in run.json and masked;")
    assert made.summary == run.failure
    assert store.read_run(made.folder)[0] == run
    assert SECRET not in (made.folder / store.RUN).read_text()


def test_a_private_key_in_changes_that_are_not_published_is_masked_to_its_last_line(
    tmp_path: Path,
) -> None:
    lines = [f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{n:032}" for n in range(3)]
    pem = ["-----BEGIN " + "PRIVATE KEY-----", *lines, "-----END " + "PRIVATE KEY-----"]
    patch = "--- /dev/null\n+++ b/key.pem\n@@ -0,0 +1,5 @@\n" + "".join(f"+{x}\n" for x in pem)
    made = recorder(tmp_path, B)
    made.built(module(B, dirty=True, uncommitted=Patch.of(patch.encode())))
    run = made.finish()
    assert run is not None
    assert run.failure.startswith(
        "what looks like a credential was found in config/uncommitted.patch and masked;"
    )
    assert run.module.source.uncommitted is not None
    written = (made.folder / store.UNCOMMITTED).read_bytes()
    assert run.module.source.uncommitted.content == written
    shown = written.decode().splitlines()
    assert shown[:3] == patch.splitlines()[:3]
    assert shown[3:] == [f"+masked-{len(line)}-characters" for line in pem]


def test_a_credential_in_what_broke_a_run_off_is_masked_wherever_it_is_told(
    tmp_path: Path,
) -> None:
    masked = "the gateway ended, and says: bad masked-24-characters"
    made = recorder(tmp_path, F)
    made.failure = f"the gateway ended, and says: bad {SECRET}"
    assert made.summary == masked
    run = made.finish()
    assert run is not None
    assert run.failure == made.failure == made.summary == masked
    without = Recorder(tmp_path / "none", B, CASES, REPEATS)
    without.failure = made.failure
    assert without.finish() is None
    assert without.summary == masked


def test_the_author_s_home_is_not_in_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("GOPATH", "/home/someone/go")
    monkeypatch.setattr("sys.orig_argv", ["python", "--source=/home/someone/higress"])
    made = recorder(tmp_path, F)
    run = made.finish()
    assert run is not None
    assert run.command == ["python", "--source=~/higress"]
    assert run.environment["GOPATH"] == "~/go"
    assert "someone" not in (made.folder / store.RUN).read_text()


def test_the_fix_is_kept_as_it_is_and_a_record_without_credentials_too(tmp_path: Path) -> None:
    fix = replace(FIX, patch=Patch.of(f"+new {SECRET}\n".encode()))
    made = recorder(tmp_path, F)
    made.built(replace(module(F), source=replace(SOURCE, fix=fix)))
    run = made.finish()
    assert run is not None
    assert run.failure == ""
    assert run.module.source.fix == fix


class Told(NamedTuple):
    """What a log is made to tell: the change, what is found of it, and the six figures."""

    name: str
    change: tuple[str, str]
    problem: str
    figures: tuple[int, ...] | None


RECONCILED = {
    "a request to the mock that no cell has": Told(
        "logs/stats.txt",
        ("upstream_rq_total: 12", "upstream_rq_total: 13"),
        "the gateway sent 13 requests to the mock, and 12 arrived",
        (13, 12, 12, 8, 8, 8),
    ),
    "an attempt that no cell has": Told(
        "logs/upstream.log",
        ("model 12 ", "model 13 "),
        "logs/upstream.log does not have attempt 12",
        (12, 12, 12, 8, 8, 8),
    ),
    "an attempt whose line is torn": Told(
        "logs/upstream.log",
        ('step="first"', 'step="\\"'),
        "the mock's log cannot be checked: unterminated string literal",
        None,
    ),
    "an attempt that the mock does not tell of": Told(
        "logs/upstream.log",
        ("model 12 ", "other 12 "),
        "logs/upstream.log does not have attempt 12",
        (12, 11, 12, 8, 8, 8),
    ),
    "a request that the access log lacks": Told(
        "logs/access.log",
        ('{"bytes_sent"', '\n{"bytes_sent"'),
        "the access log cannot be checked: Input data was truncated",
        (12, 12, 12, 8, 8, 9),
    ),
    "a request that the gateway counts and nobody sent": Told(
        "logs/stats.txt",
        ("openai-chat.downstream_rq_total: 4", "openai-chat.downstream_rq_total: 5"),
        "the gateway's listener openai-chat got 5 requests, and 4 were sent",
        (12, 12, 12, 8, 9, 8),
    ),
    "another cluster with traffic": Told(
        "logs/stats.txt",
        ("http.", "cluster.outbound.upstream_rq_total: 2\nhttp."),
        "the gateway's cluster outbound had traffic; expected mock-upstream alone",
        (12, 12, 12, 8, 8, 8),
    ),
    "a breakdown": Told(
        "logs/gateway.log",
        ("[info]", f"{PANIC}\n[info]"),
        "the plugin broke down in the gateway, whose log says: [error] wasm log plugin kling "
        "plugin: [ai-proxy] [nil] [kling/direct/1] recovered from panic x",
        (12, 12, 12, 8, 8, 8),
    ),
}


@pytest.mark.parametrize("told", RECONCILED.values(), ids=RECONCILED)
@pytest.mark.parametrize("variant", Variant)
def test_a_run_whose_logs_tell_otherwise_is_inconclusive_with_the_figures(
    tmp_path: Path, variant: Variant, told: Told
) -> None:
    made = recorder(tmp_path, variant)
    path = made.folder / told.name
    assert told.change[0] in path.read_text()
    path.write_text(path.read_text().replace(*told.change, 1))
    run = made.finish()
    assert run is not None
    assert run.failure == made.summary
    start = f"what was seen does not add up: {told.problem}"
    assert run.failure.startswith(start)
    assert " (to the mock: the gateway counts " in run.failure
    assert run.failure.endswith(
        "; expected gateway, mock and cells to tell of the same requests, and no breakdown; see "
        "logs/ of this run, and run it again"
    )
    if told.figures is not None:
        counted, logged, seen, sent, listened, lines = told.figures
        assert run.failure[len(start) :].startswith(
            f" (to the mock: the gateway counts {counted} requests, the mock's log has {logged}, "
            f"the cells have {seen}; from the client: {sent} were sent, the gateway counts "
            f"{listened}, the access log has {lines})"
        )


def test_a_run_that_is_not_whole_keeps_its_own_reason(tmp_path: Path) -> None:
    """What a killed gateway takes along is no contradiction."""
    made = recorder(tmp_path, F)
    (made.folder / "logs" / "access.log").write_text("")
    made.failure = "the gateway was ended by SIGKILL before the matrix was done"
    run = made.finish()
    assert run is not None
    assert run.failure == "the gateway was ended by SIGKILL before the matrix was done"


def test_a_run_with_a_cell_that_was_not_observed_names_it_whatever_the_logs_lack(
    tmp_path: Path,
) -> None:
    """What a gateway that ended takes along is no contradiction, and the cell says why."""
    found = results(F)
    seen = msgspec.structs.replace(found[-1].observation, response=None, fault="it is gone")
    found[-1] = cells.conclude(CONTROL, found[-1].cell, F, seen, ADDRESS)
    made = recorder(tmp_path, F, found)
    logs = made.folder / "logs"
    (logs / "stats.txt").write_text("")
    (logs / "access.log").write_text((logs / "access.log").read_text()[:-30])
    run = made.finish()
    assert run is not None
    assert run.failure == ""
    assert made.summary == (
        f"fixed: 1 of 8 cells are not as declared, first {found[-1].cell.id}: inconclusive: "
        "it is gone"
    )


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
    read, those = store.read_run(made.folder)
    assert read == run
    assert (read.testbed, read.upstream_address, those) == (None, "", ())
    assert read.failure == made.summary == "the gateway exited with status 3 before it was ready"
    assert read.counts.cells == 0


def test_an_interrupted_run_is_recorded_with_the_cells_it_had(tmp_path: Path) -> None:
    made = recorder(tmp_path, F, results(F)[:3])
    made.failure = "interrupted"
    made.finish()
    read, those = store.read_run(made.folder)
    assert len(those) == 3
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
