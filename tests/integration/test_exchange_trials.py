"""What a plugin does to a message, and what the gateway does of itself: each told from the other.

T24, T25 and T36, with a plugin that meddles with one thing at a time (see meddler/main.go).
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from containers import engines, envoy_config
from containers.records import EngineKind, Limits, Listener
from containers.testbed import Plan
from sessions.evidence.record import traffic
from sessions.matrix import cells
from sessions.matrix.case import Mode
from sessions.matrix.records import Cell, Result
from sessions.matrix.verdict import Verdict
from tests.integration.running import PROJECT
from wasm.golang import toolchain
from wasm.records import Variant, sha256_of

if TYPE_CHECKING:
    from pathlib import Path

    from sessions.matrix.case import Case
    from wasm.records import Module

pytestmark = pytest.mark.timeout(120)

EITHER_ENGINE = [EngineKind.PROCESS, pytest.param(EngineKind.DOCKER, marks=pytest.mark.docker)]
NOTHING = "nothing"
USAGE = b"data: usage\n\n"
LARGE = 1_200_000


@pytest.fixture(scope="module")
def meddler(modules: dict[Variant, Module], tmp_path_factory: pytest.TempPathFactory) -> Module:
    """The meddler's module."""
    built = tmp_path_factory.mktemp("meddler") / "plugin.wasm"
    go = toolchain.locate()
    subprocess.run(
        [go.program, "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-o", built],
        cwd=PROJECT / "tests" / "integration" / "meddler",
        env={**go.environment, "GOOS": "wasip1", "GOARCH": "wasm"},
        check=True,
    )
    digest = sha256_of(built.read_bytes())
    return replace(modules[Variant.BASELINE], path=str(built), sha256=digest)


@dataclass(frozen=True)
class Meddled:
    """What was seen of some deeds, each followed by a cell in which nothing was done."""

    results: dict[str, Result]
    after: dict[str, Result]
    access_log: list[dict[str, Any]]


def case_of(control: Case, number: int, do: str, filling: int = 0) -> Case:
    """The control, meddled with; bodies have a filling of so many bytes."""
    sent = {"model": "m1", "text": "A" * filling}
    got = {"id": 1, "text": "B" * filling}
    change = msgspec.structs.replace
    return change(
        control,
        name=f"meddled-{number}",
        plugin={"do": do},
        modes=[Mode.DIRECT],
        request=change(control.request, target="/v1/any", json=sent),
        upstream=change(control.upstream, target="/v1/any", json=sent),
        success=change(control.success, json=got),
        client=change(control.client, json=got),
        must_fail={},
    )


def meddled(
    engine: EngineKind, module: Module, folder: Path, control: Case, *deeds: str, filling: int = 0
) -> Meddled:
    """Run a cell for each deed, each followed by one in which nothing is done."""
    cases = [case_of(control, n, do, filling) for n, do in enumerate((NOTHING, *deeds))]
    plan = Plan(
        module=module,
        listeners=tuple(Listener(name=one.name, plugin_config=one.plugin) for one in cases),
        folder=folder,
        limits=Limits(exchange_s=3.0),
    )
    results: dict[str, Result] = {}
    after: dict[str, Result] = {}
    with engines.opened(engines.Choice(engine, plan.gateway, ()), plan) as testbed:
        for number, case in enumerate(cases):
            for into, one, repeat in ((results, case, 1), (after, cases[0], number + 2)):
                cell = Cell(case=one.name, mode=Mode.DIRECT, repeat=repeat)
                into[case.plugin["do"]] = cells.run(testbed, one, cell, Variant.FIXED)
    lines = (folder / "logs" / "access.log").read_text().splitlines()
    return Meddled(results, after, [json.loads(line) for line in lines])


@pytest.fixture(scope="module", params=EITHER_ENGINE)
def engine(request: pytest.FixtureRequest) -> EngineKind:
    found: EngineKind = request.param
    if found is EngineKind.DOCKER:
        request.getfixturevalue("daemon")
    return found


@pytest.fixture(scope="module")
def seen(
    engine: EngineKind,
    meddler: Module,
    cases: dict[str, Case],
    tmp_path_factory: pytest.TempPathFactory,
) -> Meddled:
    deeds = (
        *("lengthen", "lengthen request", "shorten", "second length", "status 204", "status 304"),
        *("encoding gzip", "encoding br deflate", "encoding gzip gzip", "request encoding"),
        *("answer", "answer with details", "answer 204", "no request path"),
    )
    folder = tmp_path_factory.mktemp("meddled")
    return meddled(engine, meddler, folder, cases["openai-chat"], *deeds)


def test_what_one_cell_did_is_never_the_next_one_s(seen: Meddled) -> None:
    assert [result.finding for result in seen.after.values() if result.reason] == []
    assert {result.verdict for result in seen.after.values()} == {Verdict.PASS}
    assert seen.results[NOTHING].verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("do", "failed", "beyond"),
    [
        ("lengthen", ("client_body",), USAGE),
        ("status 204", ("client_status", "client_body"), b'{"id":1,"text":""}'),
        ("status 304", ("client_status", "client_body"), b'{"id":1,"text":""}'),
    ],
)
def test_t36_bytes_that_followed_an_answer_are_in_its_own_cell(
    seen: Meddled, do: str, failed: tuple[str, ...], beyond: bytes
) -> None:
    result = seen.results[do]
    assert result.failed_checks == failed
    assert result.response is not None
    assert result.response.trailing == beyond
    said = result.checks[-1].actual["beyond its end"]
    assert said == f"{len(beyond)} bytes, the first: {beyond.decode()}"


def test_t36_bytes_that_followed_an_attempt_are_in_its_own_cell(seen: Meddled) -> None:
    result = seen.results["lengthen request"]
    assert result.failed_checks == ("first_body",)
    (attempt,) = result.attempts
    assert attempt.trailing == b" more than there was"
    assert attempt.body == result.request.body


def test_t36_an_answer_that_ends_too_early_says_how_much_of_it_came(seen: Meddled) -> None:
    result = seen.results["shorten"]
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "2 of the 18 bytes that its content-length announces" in result.reason


def test_an_answer_with_two_lengths_is_none(seen: Meddled) -> None:
    result = seen.results["second length"]
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "conflicting Content-Length" in result.reason


@pytest.mark.parametrize(
    ("do", "coding"),
    [("gzip", "gzip"), ("br deflate", "br,deflate"), ("gzip gzip", "gzip,gzip")],
)
def test_t25_a_body_is_judged_as_it_was_sent_whatever_its_content_encoding(
    seen: Meddled, do: str, coding: str
) -> None:
    result = seen.results[f"encoding {do}"]
    assert result.verdict is Verdict.PASS
    assert result.response is not None
    assert ("content-encoding", coding) in result.response.headers
    assert result.response.body == b'{"id":1,"text":""}'


def test_t25_the_same_of_a_request(seen: Meddled) -> None:
    result = seen.results["request encoding"]
    assert result.verdict is Verdict.PASS
    assert ("content-encoding", "gzip") in result.attempts[0].headers


@pytest.mark.parametrize(
    ("do", "details"),
    [
        ("answer", ""),
        ("answer with details", "the_plugins_own_words"),
        ("answer 204", ""),
        ("no request path", "route_not_found"),
    ],
)
def test_what_a_plugin_answers_or_brings_about_is_judged(
    seen: Meddled, do: str, details: str
) -> None:
    result = seen.results[do]
    assert result.verdict is Verdict.MISMATCH
    assert "attempt_count" in result.failed_checks
    assert result.ending is not None
    assert (result.ending.details, result.ending.own) == (details, "")


def test_the_access_log_tells_of_every_cell_what_the_cell_does(seen: Meddled) -> None:
    rows = {row["request_id"]: row for row in seen.access_log}
    judged = [
        result
        for results in (seen.results, seen.after)
        for result in results.values()
        if result.response is not None
    ]
    assert len(judged) == len(seen.results) + len(seen.after) - 2
    for result in judged:
        for name, observed in result.exchanges.items():
            failed = bool(result.failed_checks) if result.checks else None
            assert [*traffic._told_otherwise(name, rows[name], observed, failed=failed)] == []


# --- Limits and resets ----------------------------------------------------------------------------


def test_t24_bodies_of_1_2_mb_pass(
    engine: EngineKind, meddler: Module, cases: dict[str, Case], tmp_path: Path
) -> None:
    deeds = ("buffer request", "buffer")
    found = meddled(engine, meddler, tmp_path, cases["openai-chat"], *deeds, filling=LARGE)
    for result in [*found.results.values(), *found.after.values()]:
        assert result.verdict is Verdict.PASS
        assert result.attempts[0].body_bytes > LARGE
        assert not result.attempts[0].truncated
        assert result.response is not None
        assert len(result.response.body) > LARGE


@pytest.mark.parametrize(
    ("do", "details"),
    [("buffer request", "request_payload_too_large"), ("buffer", "response_payload_too_large")],
)
def test_t24_a_limit_of_the_gateway_is_not_the_plugin_s_failure(  # noqa: PLR0913 - fixtures
    engine: EngineKind,
    meddler: Module,
    cases: dict[str, Case],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    do: str,
    details: str,
) -> None:
    monkeypatch.setattr(envoy_config, "BUFFER_LIMIT_BYTES", 1 << 20)
    found = meddled(engine, meddler, tmp_path, cases["openai-chat"], do, filling=LARGE)
    result = found.results[do]
    assert result.verdict is Verdict.INCONCLUSIVE
    assert details in result.reason
    assert result.ending is not None
    assert result.ending.details == details
    assert found.after[do].verdict is Verdict.PASS


def test_an_upstream_that_breaks_off_is_not_the_plugin_s_failure(
    engine: EngineKind,
    meddler: Module,
    cases: dict[str, Case],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = {"steps": [{"name": "first", "respond": {"action": "close"}}]}
    monkeypatch.setattr(cells, "script", lambda _case, _mode: script)
    found = meddled(engine, meddler, tmp_path, cases["openai-chat"])
    result = found.results[NOTHING]
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "upstream_reset_before_response_started{connection_termination}" in result.reason
    assert result.reason.endswith("flags UC")
