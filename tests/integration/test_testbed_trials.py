"""Testbeds that must not work, each for one reason, and what is said of it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from containers import engines
from containers.process import engine as process_engine
from containers.records import EngineKind, Limits
from containers.testbed import FileLog
from sessions.matrix import cells
from sessions.matrix.case import Mode
from sessions.matrix.records import Cell
from sessions.matrix.verdict import Verdict
from tests.integration.running import PROJECT, refuses
from wasm.foundation.errors import BuildError, GatewayError
from wasm.golang import toolchain
from wasm.records import Variant, sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from containers.testbed import Plan, Testbed
    from sessions.matrix.case import Case
    from sessions.matrix.records import Result
    from wasm.records import Module

    Planned = Callable[..., Plan]

pytestmark = pytest.mark.timeout(120)

EITHER_ENGINE = pytest.mark.parametrize(
    "engine", [EngineKind.PROCESS, pytest.param(EngineKind.DOCKER, marks=pytest.mark.docker)]
)


def run_cell(testbed: Testbed, case: Case, mode: Mode = Mode.RETRY) -> Result:
    cell = Cell(case=case.name, mode=mode, repeat=1)
    return cells.run(testbed, case, cell, Variant.BASELINE)


def opened(engine: EngineKind, plan: Plan) -> AbstractContextManager[Testbed]:
    return engines.opened(engines.Choice(engine, plan.gateway, ()), plan)


def children() -> set[int]:
    """The processes that this one has started and that still run."""
    return {each.pid for each in psutil.Process().children(recursive=True)}


def refused(plan: Plan, error: type[Exception]) -> Any:
    """Open what cannot be opened; return the error, and see that nothing is left."""
    before = children()
    with pytest.raises(error) as caught, process_engine.opened(plan):
        pytest.fail("it opened")
    assert children() == before
    return caught.value


@pytest.fixture
def never_started(tmp_path: Path) -> tuple[str, Callable[[], bool]]:
    """Give an Envoy that says its version and notes when it is run, and whether it was."""
    program, note = tmp_path / "envoy", tmp_path / "was-run"
    version = "envoy  version: 4bc5/1.40.0/Clean/RELEASE/BoringSSL"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "{version}" || echo run > {note}\n'
    )
    program.chmod(0o755)
    return str(program), lambda: not note.exists()


def test_t6_the_unmodified_module_is_refused_before_a_gateway_starts(
    plan: Planned, tmp_path: Path, never_started: tuple[str, Callable[[], bool]]
) -> None:
    program, not_run = never_started
    error = refused(plan(tmp_path / "run", adapt=False, envoy=program), BuildError)
    assert error.sentence.startswith(
        "The module speaks proxy-Wasm ABI `0_2_100`, which stock Envoy"
    )
    assert not_run()


def test_t9_a_module_built_without_c_shared_is_refused_before_a_gateway_starts(
    plan: Planned,
    modules: dict[Variant, Module],
    tmp_path: Path,
    never_started: tuple[str, Callable[[], bool]],
) -> None:
    program, not_run = never_started
    shutil.copytree(PROJECT / "wasm" / "go" / "reference", tmp_path / "source")
    go = toolchain.locate()
    built = tmp_path / "command.wasm"
    subprocess.run(
        [go.program, "build", "-trimpath", "-buildvcs=false", "-o", built, "."],
        cwd=tmp_path / "source",
        env={**go.environment, "GOOS": "wasip1", "GOARCH": "wasm"},
        check=True,
    )
    module = replace(
        modules[Variant.BASELINE], path=str(built), sha256=sha256_of(built.read_bytes())
    )
    error = refused(plan(tmp_path / "run", module=module, envoy=program), BuildError)
    assert "`_initialize`" in error.sentence
    assert "c-shared" in error.sentence
    assert not_run()


@EITHER_ENGINE
def test_t7_without_stop_iteration_a_request_hangs_and_the_cell_says_so(
    plan: Planned, cases: dict[str, Case], tmp_path: Path, engine: EngineKind
) -> None:
    case = cases["kling-text-to-video"]
    limits = Limits(exchange_s=1.5)
    with opened(engine, plan(tmp_path, stop_iteration=False, limits=limits)) as testbed:
        start = time.monotonic()
        result = run_cell(testbed, case)
        took_s = time.monotonic() - start
    assert result.verdict is Verdict.INCONCLUSIVE
    assert not result.as_declared
    assert result.attempts == ()
    assert result.reason == (
        "no response within 1.5 s, and nothing reached the upstream: the gateway holds the request "
        "(is allow_on_headers_stop_iteration set for the plugin?)"
    )
    assert 1.5 <= took_s < 6


@EITHER_ENGINE
def test_t8_without_the_cluster_name_no_retry_goes_out_and_that_is_no_reproduction(
    plan: Planned, cases: dict[str, Case], tmp_path: Path, engine: EngineKind
) -> None:
    with opened(engine, plan(tmp_path, cluster_name=False)) as testbed:
        retry = [run_cell(testbed, case) for case in cases.values()]
        direct = [run_cell(testbed, case, Mode.DIRECT) for case in cases.values()]
    for result in retry:
        assert result.verdict is Verdict.INCONCLUSIVE
        assert not result.as_declared
        assert len(result.attempts) == 1
        assert result.checks == ()
        assert result.reason.startswith(
            "the testbed kept the retry from going out; the plugin's log says: ["
        )
        assert "get route cluster failed" in result.reason
    assert [result.verdict for result in direct] == [Verdict.PASS] * 3


def test_t10_a_second_gateway_on_a_listeners_port_is_refused_and_the_first_goes_on(
    plan: Planned, testbed: Testbed, cases: dict[str, Case], tmp_path: Path
) -> None:
    (name, url), *_ = testbed.gateway_urls.items()
    address = url.removeprefix("http://")
    ports = (int(address.rpartition(":")[2]), 0, 0)
    error = refused(plan(tmp_path, listener_ports=ports), GatewayError)
    assert error.sentence == (
        f"the gateway cannot listen on {address}: another program has that port; expected a free "
        "one; end that program, or leave the choice of the port to the kernel"
    )
    assert run_cell(testbed, cases[name], Mode.DIRECT).verdict is Verdict.PASS


def test_an_upstream_port_that_is_taken_is_named(plan: Planned, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = refused(plan(tmp_path, upstream_port=port), GatewayError)
    assert error.sentence == (
        f"the upstream did not start: upstream: --model 127.0.0.1:{port} is already taken; "
        "expected a free port; choose another, or port 0"
    )


def test_ports_that_were_chosen_are_used(
    plan: Planned, cases: dict[str, Case], tmp_path: Path
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        upstream, listener = one.getsockname()[1], other.getsockname()[1]
    chosen = plan(tmp_path, upstream_port=upstream, listener_ports=(listener, 0, 0))
    with process_engine.opened(chosen) as testbed:
        name = next(iter(testbed.gateway_urls))
        result = run_cell(testbed, cases[name])
    assert testbed.gateway_urls[name] == f"http://127.0.0.1:{listener}"
    assert testbed.upstream_address == f"127.0.0.1:{upstream}"
    assert result.verdict is Verdict.MISMATCH
    assert result.as_declared
    assert testbed.cleanup.complete


def test_an_address_that_an_earlier_gateway_left_in_the_folder_is_not_asked(
    plan: Planned, testbed: Testbed, tmp_path: Path
) -> None:
    """The earlier gateway still says LIVE; the new one, which ends at once, must not."""
    log = testbed.gateway_log
    assert isinstance(log, FileLog)
    earlier = log.path.parent.parent / "config" / "admin-address.txt"
    (tmp_path / "run" / "config").mkdir(parents=True)
    shutil.copy(earlier, tmp_path / "run" / "config")
    program = tmp_path / "envoy"
    version = "envoy  version: 4bc5/1.40.0/Clean/RELEASE/BoringSSL"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "{version}"; exit; }}\n'
        "sleep 1\necho 'no module today' >&2\nexit 3\n"
    )
    program.chmod(0o755)
    error = refused(plan(tmp_path / "run", envoy=str(program)), GatewayError)
    assert error.sentence.startswith("the gateway exited with status 3 before it was ready")
    assert error.detail == "no module today"


def test_t1_a_gateway_that_is_not_ready_in_time_is_ended_within_it(
    plan: Planned, tmp_path: Path
) -> None:
    limits = Limits(ready_s=0.4, probe_s=0.5)
    start = time.monotonic()
    error = refused(plan(tmp_path, limits=limits), GatewayError)
    assert error.sentence.startswith("the gateway was not ready after 0.4 s; expected LIVE")
    assert time.monotonic() - start < 10


def test_t3_an_error_inside_closes_everything_and_is_what_is_reported(
    plan: Planned, tmp_path: Path
) -> None:
    before = children()
    with pytest.raises(ZeroDivisionError), process_engine.opened(plan(tmp_path)) as testbed:
        raise ZeroDivisionError
    assert children() == before
    assert testbed.cleanup.complete
    assert all(refuses(name.split()[-1]) for name in testbed.cleanup.refused)
    assert "cluster.mock-upstream" in (tmp_path / "logs" / "stats.txt").read_text()
