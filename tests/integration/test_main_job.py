"""The main job on the reference plugin: red on the baseline, green on the fix, and all of it kept.

The two sessions ran at the same time, so what holds here holds for two runs at once.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from containers import envoy
from sessions.evidence.record.store import SUMS
from sessions.matrix.verdict import Verdict
from tests.integration.running import ours, refuses
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.running import Session
    from wasm.records import Module

    Both = tuple[Session, Session]

pytestmark = pytest.mark.timeout(120)

CLAIMED = ["retry_path", "retry_body", "client_status", "client_body"]
VIDEO_RETRIES = {
    f"kling-{kind}-to-video/retry/{repeat}" for kind in ("text", "image") for repeat in (1, 2, 3)
}
FILES = {
    "SHA256SUMS",
    "cells.jsonl",
    "cleanup.json",
    "config/admin-address.txt",
    "config/envoy.json",
    "config/listeners.json",
    "config/plugins/kling-image-to-video.json",
    "config/plugins/kling-text-to-video.json",
    "config/plugins/openai-chat.json",
    "junit.xml",
    "logs/access.log",
    "logs/clusters.txt",
    "logs/gateway.log",
    "logs/server_info.json",
    "logs/stats.txt",
    "logs/upstream.log",
    "run.json",
}
OF_THE_FIXED = {"config/fix.patch"}


@pytest.fixture(params=[0, 1], ids=list(Variant))
def session(request: pytest.FixtureRequest, both: Both) -> Session:
    return both[request.param]


def wanted(session: Session) -> set[str]:
    return FILES | (OF_THE_FIXED if session.folder.name == Variant.FIXED else set())


def lines(session: Session, name: str) -> list[str]:
    return (session.folder / "logs" / name).read_text().splitlines()


def test_both_sessions_succeed(both: Both) -> None:
    for session in both:
        assert session.process.returncode == 0, session.stdout + session.stderr
        assert "error: " not in session.stderr


def test_the_comparison_is_proven_with_the_counts_of_the_contract(
    both: Both, report: Callable[..., Any], modules: dict[Variant, Module], tmp_path: Path
) -> None:
    status, comparison, words = report(tmp_path, *both)
    assert (status, words) == (0, "")
    assert comparison["verdict"] == "proven"
    (reason,) = comparison["reasons"]
    assert reason == (
        "the baseline failed in 6 of 18 cells, in each for exactly the declared checks, and held "
        "in all others; the fixed module held in all 18"
    )
    assert comparison["counts"] == {
        "baseline": {"cells": 18, "pass": 12, "mismatch": 6, "inconclusive": 0},
        "fixed": {"cells": 18, "pass": 18, "mismatch": 0, "inconclusive": 0},
    }
    assert comparison["release_evidence"] is False
    assert {name: each["sha256"] for name, each in comparison["modules"].items()} == {
        variant: module.sha256 for variant, module in modules.items()
    }


def test_the_baseline_fails_for_the_claimed_reason_and_nowhere_else(both: Both) -> None:
    _, results = both[0].read()
    failed = {result.cell.id: result for result in results if result.failed_checks}
    assert failed.keys() == VIDEO_RETRIES
    assert [[*result.failed_checks] for result in failed.values()] == [CLAIMED] * 6
    assert all(result.verdict is Verdict.MISMATCH for result in failed.values())


def test_a_retry_of_the_baseline_arrives_as_another_api_and_of_the_fixed_as_its_own(
    both: Both,
) -> None:
    for session, wrong in zip(both, (True, False), strict=True):
        _, results = session.read()
        for result in results:
            first, *retry = [attempt.target for attempt in result.attempts]
            assert len(retry) == (1 if result.cell.mode == "retry" else 0)
            differs = wrong and result.cell.id in VIDEO_RETRIES
            assert all((target != first) is differs for target in retry)


def test_each_cell_used_both_keys_in_some_order(both: Both) -> None:
    for session in both:
        for result in session.read()[1]:
            keys = [attempt.key for attempt in result.attempts]
            assert set(keys) <= {"dummy-key-a", "dummy-key-b"}
            assert len(set(keys)) == len(keys)


# --- What is kept -------------------------------------------------------------------------------


def test_the_folder_holds_the_files_of_the_contract(session: Session) -> None:
    found = {
        path.relative_to(session.folder).as_posix()
        for path in session.folder.rglob("*")
        if path.is_file()
    }
    assert found == wanted(session)


def test_the_sums_are_of_every_other_file_and_right(session: Session) -> None:
    rows = [row.split("  ", 1) for row in (session.folder / SUMS).read_text().splitlines()]
    assert {name for _, name in rows} == wanted(session) - {SUMS}
    for digest, name in rows:
        assert hashlib.sha256((session.folder / name).read_bytes()).hexdigest() == digest


def test_junit_has_a_test_for_each_cell(session: Session) -> None:
    (suite,) = ET.parse(session.folder / "junit.xml").getroot()  # noqa: S314 - our own file
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("18", "0", "0")


def test_the_access_log_has_one_line_for_each_cell_in_order(session: Session) -> None:
    _, results = session.read()
    log = [json.loads(line) for line in lines(session, "access.log")]
    assert len(log) == 18
    assert [line["request_id"] for line in log] == [result.cell.id for result in results]
    for line, result in zip(log, results, strict=True):
        assert result.response is not None
        assert line["status"] == result.response.status
        assert line["upstream_cluster"] == "mock-upstream"
        assert line["upstream_host"] == result.attempts[0].arrived_on


def test_the_only_cluster_with_traffic_is_the_mock_and_it_had_every_attempt(
    session: Session,
) -> None:
    stats = dict(line.split(": ", 1) for line in lines(session, "stats.txt") if ": " in line)
    totals = {name: int(stats[name]) for name in stats if name.endswith(".upstream_rq_total")}
    attempts = [attempt for result in session.read()[1] for attempt in result.attempts]
    assert len(attempts) == 27
    assert totals == {"cluster.mock-upstream.upstream_rq_total": 27}
    clusters = {line.split("::")[0] for line in lines(session, "clusters.txt")}
    assert clusters == {"mock-upstream"}


def test_the_upstreams_log_is_whole(session: Session) -> None:
    log = lines(session, "upstream.log")
    attempts = [attempt for result in session.read()[1] for attempt in result.attempts]
    model = [line for line in log if f" {attempts[0].method} " in line and " model " in line]
    assert len(model) == len(attempts)


def test_the_gateways_log_has_the_plugins_lines_and_no_trouble_of_the_gateway(
    session: Session,
) -> None:
    log = lines(session, "gateway.log")
    assert sum("wasm log kling-text-to-video" in line for line in log) > 0
    assert [line for line in log if "[critical]" in line or "[error]" in line] == []


def test_the_configuration_that_is_kept_is_the_one_envoy_was_given(session: Session) -> None:
    config = session.folder / "config" / "envoy.json"
    run, _ = session.read()
    assert run.testbed is not None
    digest = hashlib.sha256(config.read_bytes()).hexdigest()
    assert run.testbed.gateway_config_sha256 == digest


def test_envoy_finds_nothing_wrong_with_its_configuration(both: Both) -> None:
    config = both[0].folder / "config" / "envoy.json"
    done = subprocess.run(
        [envoy.program(None), "--mode", "validate", "--config-path", config],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("OK")


def test_the_run_names_what_it_ran_in(session: Session) -> None:
    run, _ = session.read()
    assert run.failure == ""
    assert run.testbed is not None
    assert run.testbed.adapter is not None
    assert run.testbed.adapter.original_sha256 == run.module.sha256
    assert run.testbed.adapter.adapted_sha256 != run.module.sha256
    assert "/1.40.0/" in run.testbed.gateway.envoy_version
    assert 0 < run.timings.gateway_ready_s < run.timings.opened_s
    assert run.timings.closed_s > 0


# --- What is left -------------------------------------------------------------------------------


def test_nothing_is_left_and_the_record_says_so(session: Session) -> None:
    cleanup = json.loads((session.folder / "cleanup.json").read_bytes())
    assert sorted(each["name"] for each in cleanup["processes"]) == ["gateway", "upstream"]
    assert [each["ended"] for each in cleanup["processes"]] == [True, True]
    # Envoy left by itself, so its logs are whole.
    assert [each["exit_status"] for each in cleanup["processes"]] == [0, 0]
    assert len(cleanup["refused"]) == 6
    assert all(cleanup["refused"].values())
    assert ours(session.folder) == []
    assert not any(psutil.pid_exists(each["pid"]) for each in cleanup["processes"])
    assert all(refuses(name.split()[-1]) for name in cleanup["refused"])
