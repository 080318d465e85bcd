"""What goes wrong with containers: each ends in time, in a sentence, with nothing left.

Most of it happens to a fake gateway (fake_gateway/main.go), which starts at once. A port that is
taken is not among them: Docker alone chooses ports (test_docker_engine.py).
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from docker.errors import APIError
from docker.types import Mount

from containers import engines, sweep, upstream_program
from containers.docker import engine as docker_engine
from containers.docker import images, server
from containers.docker.parts import OWNER_LABEL, RUN_LABEL, OwnNetwork, Part
from containers.records import GatewayKind, Limits
from sessions.matrix import cells
from sessions.matrix.case import Mode
from sessions.matrix.records import Cell
from sessions.matrix.verdict import Verdict
from tests.integration.docker_traces import own_daemon, part, runs_cells, traces
from tests.integration.running import until
from wasm.foundation import owners
from wasm.foundation.errors import GatewayError
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from containers.docker.server import Daemon
    from containers.testbed import Plan, Testbed
    from sessions.matrix.case import Case
    from sessions.matrix.records import Result
    from tests.integration.running import Session

    Start = Callable[..., Session]
    Report = Callable[..., tuple[int, Any, str]]
    FakeGateway = Callable[..., str]
    Planned = Callable[..., Plan]

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120)]

KILLED = "exited with status 137 (SIGKILL)"
# Docker's client leaves a socket open that it could not connect, once its daemon is gone; `nox -s`
# runs the matrix with every warning ignored.
UNCONNECTED = ("-W", "ignore:unclosed <socket.socket fd=:ResourceWarning")
LONG = ("--case=kling-text-to-video", "--repeat=100")
GONE = re.compile(
    r"error: the Docker daemon does not answer any more \(.+\); expected it to live as long as the "
    r"run; start it again, then run `nox -s clean`"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run's folder; its name, which is in every container's, is no other test's."""
    return tmp_path / f"run-{secrets.token_hex(4)}"


@pytest.fixture
def fake(plan: Planned, fake_gateway: FakeGateway, folder: Path) -> Callable[..., Plan]:
    """Give a function that plans a testbed whose gateway behaves as it is told."""

    def planned(behaviour: str, **other: Any) -> Plan:
        image = fake_gateway(behaviour)
        return plan(folder, gateway=GatewayKind.HIGRESS, gateway_image=image, **other)

    return planned


def refused(plan: Plan, daemon: Daemon) -> tuple[GatewayError, float]:
    """Open what cannot be opened; return the error and how long it took; nothing is left."""
    start = time.monotonic()
    with pytest.raises(GatewayError) as caught, docker_engine.opened(plan):
        pytest.fail("it opened")
    assert traces(daemon.client, plan.folder) == []
    return caught.value, time.monotonic() - start


def run_cell(testbed: Testbed, case: Case, mode: Mode = Mode.DIRECT) -> Result:
    cell = Cell(case=case.name, mode=mode, repeat=1)
    return cells.run(testbed, case, cell, Variant.BASELINE)


@pytest.fixture
def killed(daemon: Daemon, folder: Path) -> Callable[[str, Callable[[], bool]], threading.Thread]:
    """Give a function that kills a part once something holds, from a thread of its own."""

    def kill(role: str, holds: Callable[[], bool]) -> threading.Thread:
        def waiting() -> None:
            container = part(daemon.client, folder, role)
            until(holds)
            container.kill()

        thread = threading.Thread(target=waiting)
        thread.start()
        return thread

    return kill


# --- Before the gateway is ready ----------------------------------------------------------------


def test_t1_a_gateway_that_is_never_ready_is_given_up_within_its_limit(
    fake: Callable[..., Plan], daemon: Daemon
) -> None:
    error, took_s = refused(fake("stay mute", limits=Limits(ready_s=3, probe_s=0.5)), daemon)
    assert error.sentence == (
        "the gateway was not ready after 3 s; expected LIVE from its admin interface, the last "
        "answer was: none within 0.5 s; its last log lines are above"
    )
    assert error.detail == "the fake gateway is to stay mute"
    assert 3 <= took_s < 15


def test_a_gateway_that_is_too_slow_for_its_limit_is_given_up_within_it(
    plan: Planned, daemon: Daemon, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Envoy itself, with a fiftieth of a core: as on a machine that is much too busy."""

    def slowly(role: str, run: str, **settings: Any) -> Part:
        limits: dict[str, Any] = {"nano_cpus": 20_000_000} if role == "gateway" else {}
        return Part(role, run, **settings, **limits)

    monkeypatch.setattr(docker_engine, "Part", slowly)
    error, took_s = refused(plan(folder, limits=Limits(ready_s=2, probe_s=0.5)), daemon)
    assert error.sentence.startswith("the gateway was not ready after 2 s; expected LIVE from its")
    assert 2 <= took_s < 25


@pytest.mark.parametrize("behaviour", ["exit at once", "exit while loading"])
def test_t2_a_gateway_that_exits_while_it_is_waited_for_is_told_at_once(
    fake: Callable[..., Plan], daemon: Daemon, behaviour: str
) -> None:
    error, took_s = refused(fake(behaviour), daemon)
    assert error.sentence == (
        "the gateway exited with status 3 before it was ready; expected LIVE from its admin "
        "interface; its last log lines are above"
    )
    last = {"exit while loading": "no module today"}.get(behaviour)
    assert error.detail.splitlines() == list(
        filter(None, [f"the fake gateway is to {behaviour}", last])
    )
    assert took_s < 15


def test_a_gateway_that_exits_once_it_is_ready_is_told_by_its_state(
    fake: Callable[..., Plan], daemon: Daemon
) -> None:
    error, took_s = refused(fake("exit when ready"), daemon)
    assert error.sentence == (
        "the gateway exited with status 7 before the matrix was done; its last log line: the fake "
        "gateway is to exit when ready"
    )
    assert took_s < 15


@pytest.mark.parametrize("waits_for", ["upstream", "gateway", "relay"])
@pytest.mark.parametrize("role", ["upstream", "relay"])
def test_a_part_that_dies_while_the_gateway_loads_is_told_at_once(  # noqa: PLR0913 - fixtures
    fake: Callable[..., Plan],
    daemon: Daemon,
    folder: Path,
    killed: Callable[..., threading.Thread],
    *,
    role: str,
    waits_for: str,
) -> None:
    thread = killed(role, lambda: bool(part(daemon.client, folder, waits_for)))
    error, took_s = refused(fake("stay mute", limits=Limits(probe_s=0.5)), daemon)
    thread.join()
    assert error.sentence == (
        f"the {role} {KILLED} before the gateway was ready; expected it to live as long as the "
        "gateway; its last log lines are above"
    )
    assert took_s < 30


def test_an_image_that_cannot_be_had_is_told_with_the_ways_out_and_auto_falls_back(
    plan: Planned, daemon: Daemon, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = images.HIGRESS_GATEWAY.partition("@")[2]
    image = f"127.0.0.1:1/higress/gateway@{digest}"
    monkeypatch.setattr(images, "HIGRESS_GATEWAY", image)
    assert engines.choose("docker", "higress").gateway is GatewayKind.HIGRESS
    error, took_s = refused(plan(folder, gateway=GatewayKind.HIGRESS), daemon)
    cause = f"the gateway image {image} cannot be had: "
    assert error.sentence.startswith(cause)
    assert "127.0.0.1:1" in error.sentence
    assert "connection refused" in error.sentence
    assert error.sentence.endswith(
        "expected it in this Docker daemon or in a registry that it reaches; copy it into one, its "
        "digest kept (`skopeo copy --preserve-digests`; `docker save` loses it), and name that "
        "with --gateway-image; --gateway envoy runs stock Envoy instead, which is no release "
        "evidence"
    )
    assert took_s < 60
    choice = engines.choose("docker", "auto")
    assert choice.gateway is GatewayKind.ENVOY
    assert choice.reasons[-1].startswith(f"gateway envoy: stock Envoy, since {cause}")


# --- While the matrix runs ----------------------------------------------------------------------


@pytest.mark.parametrize("role", ["gateway", "upstream", "relay"])
def test_a_part_that_dies_between_cells_makes_the_next_inconclusive_and_is_named(
    fake: Callable[..., Plan], daemon: Daemon, folder: Path, cases: dict[str, Case], role: str
) -> None:
    case = cases["openai-chat"]
    with docker_engine.opened(fake("forward")) as testbed:
        assert len(run_cell(testbed, case).attempts) == 1
        part(daemon.client, folder, role).kill()
        start = time.monotonic()
        results = [run_cell(testbed, case, mode) for mode in Mode]
        took_s = time.monotonic() - start
    for result in results:
        assert result.verdict is Verdict.INCONCLUSIVE
        assert not result.as_declared
        assert result.checks == ()
        assert result.reason.startswith(f"the {role} {KILLED} before the matrix was done")
    assert took_s < 10
    assert testbed.cleanup.complete
    assert traces(daemon.client, folder) == []


@pytest.mark.parametrize("role", ["gateway", "upstream"])
def test_a_part_that_dies_during_an_attempt_makes_its_cell_inconclusive_and_is_named(  # noqa: PLR0913, PLR0917 - fixtures
    fake: Callable[..., Plan],
    daemon: Daemon,
    folder: Path,
    cases: dict[str, Case],
    killed: Callable[..., threading.Thread],
    monkeypatch: pytest.MonkeyPatch,
    *,
    role: str,
) -> None:
    answer = {"status": 200, "headers": [], "json_body": {}, "delay_ms": 30_000}
    script = {"steps": [{"name": "first", "respond": answer}]}
    monkeypatch.setattr(cells, "script", lambda _case, _mode: script)
    with docker_engine.opened(fake("forward")) as testbed:
        journal = f"{testbed.control_url}/journal?settle_ms=0"
        with httpx.Client(trust_env=False) as client:
            thread = killed(role, lambda: client.get(journal).json()["in_flight"] == 1)
            start = time.monotonic()
            result = run_cell(testbed, cases["openai-chat"])
            took_s = time.monotonic() - start
            thread.join()
    assert result.verdict is Verdict.INCONCLUSIVE
    assert not result.as_declared
    assert result.reason.startswith(f"the {role} {KILLED} before the matrix was done")
    assert took_s < 20
    assert traces(daemon.client, folder) == []


def test_a_gateway_that_is_killed_in_mid_run_is_no_reproduction(
    start: Start, report: Report, daemon: Daemon, modules: object, folder: Path
) -> None:
    assert modules
    options = ("--engine=docker", "--gateway=envoy", *LONG)
    fixed = start("fixed", folder.with_name(f"fixed-{folder.name}"), *options)
    baseline = start("baseline", folder, *options)
    runs_cells(daemon.client, folder)
    part(daemon.client, folder, "gateway").kill()
    assert baseline.wait() != 0
    assert fixed.wait() == 0, fixed.stderr
    assert re.fullmatch(
        r"error: baseline: \d+ of 200 cells are not as declared, first kling-text-to-video/"
        rf"(retry|direct)/\d+: inconclusive: the gateway {re.escape(KILLED)} before the matrix was "
        r"done(; its last log line: .+)?",
        baseline.last_words,
    )
    _, results = baseline.read()
    silent = [result for result in results if not result.as_declared]
    assert 0 < len(silent) < 200
    assert {result.verdict for result in silent} == {Verdict.INCONCLUSIVE}
    status, comparison, words = report(folder.with_name("evidence"), baseline, fixed)
    assert status != 0
    assert comparison["verdict"] == "inconclusive"
    assert words.startswith("error: inconclusive: baseline: ")
    assert traces(daemon.client, folder) == []


def test_a_gateway_that_never_was_ready_is_no_reproduction(
    start: Start,
    report: Report,
    daemon: Daemon,
    fake_gateway: FakeGateway,
    folder: Path,
) -> None:
    options = ("--engine=docker", f"--gateway-image={fake_gateway('exit while loading')}")
    sessions = [start(variant, folder / variant, *options) for variant in Variant]
    for session in sessions:
        assert session.wait() != 0
        run, results = session.read()
        assert (run.testbed, results) == (None, ())
        assert run.failure.startswith("the gateway exited with status 3 before it was ready; ")
        assert session.last_words == f"error: {run.failure}"
        assert "no module today" in session.stderr
    status, comparison, _ = report(folder, *sessions)
    assert status != 0
    assert comparison is None
    for session in sessions:
        assert traces(daemon.client, session.folder) == []


# --- Clean-up -----------------------------------------------------------------------------------


def test_t3_an_error_inside_removes_everything_and_is_what_is_reported(
    fake: Callable[..., Plan], daemon: Daemon, folder: Path
) -> None:
    with pytest.raises(ZeroDivisionError), docker_engine.opened(fake("forward")) as testbed:
        raise ZeroDivisionError
    assert traces(daemon.client, folder) == []
    assert testbed.cleanup.complete


def test_t3_an_error_in_closing_does_not_hide_the_first_one(
    fake: Callable[..., Plan], daemon: Daemon, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = OwnNetwork.remove

    def refuse(network: OwnNetwork) -> None:
        remove(network)
        raise APIError("403", explanation="has active endpoints")

    monkeypatch.setattr(OwnNetwork, "remove", refuse)
    with pytest.raises(ZeroDivisionError) as caught, docker_engine.opened(fake("forward")):
        raise ZeroDivisionError
    (note,) = caught.value.__notes__
    assert note.startswith("closing failed, too: the network gateway-proof-")
    assert note.endswith(
        "could not be removed (has active endpoints); expected nothing to be left; run `nox -s "
        "clean`"
    )
    assert traces(daemon.client, folder) == []


def test_t3_a_container_that_is_still_attached_does_not_keep_its_network(
    daemon: Daemon, fake_gateway: FakeGateway, folder: Path
) -> None:
    run = f"{folder.name}-1"
    image = fake_gateway("stay mute")
    network = OwnNetwork(run, internal=True)
    attached = Part("gateway", run, image=image, network=network, command=[])
    first = ZeroDivisionError()
    network.create()
    attached.start()
    network.__exit__(ZeroDivisionError, first, None)
    assert not hasattr(first, "__notes__")
    assert traces(daemon.client, folder) == [f"container gateway-proof-{run}-gateway"]
    attached.stop()
    assert traces(daemon.client, folder) == []


@pytest.mark.parametrize("name", ["gateway.log", "stats.txt"])
def test_a_disk_that_is_full_for_logs_leaves_no_container(
    fake: Callable[..., Plan], daemon: Daemon, folder: Path, name: str
) -> None:
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / name).symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"), docker_engine.opened(fake("forward")):
        pass
    assert traces(daemon.client, folder) == []


def test_a_full_disk_ends_in_a_sentence_and_leaves_no_container(
    start: Start, daemon: Daemon, fake_gateway: FakeGateway, folder: Path
) -> None:
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "envoy.json").symlink_to("/dev/full")
    image = fake_gateway("forward")
    session = start("fixed", folder, "--engine=docker", f"--gateway-image={image}", "--repeat=1")
    assert session.wait() != 0
    assert session.last_words == (
        f"error: no space left on the disk of {folder}; expected room for a run's evidence, about "
        "1 MB; free some, or name a folder on another disk with --evidence"
    )
    assert traces(daemon.client, folder) == []


def test_what_a_killed_run_had_asked_docker_to_remove_is_reported_by_the_sweep(
    daemon: Daemon, folder: Path
) -> None:
    """Its request goes on without it; at times that is done before the sweep looks."""
    ours = owners.here()
    gone = str(replace(ours, started=ours.started - 9))
    image = images.upstream_image(daemon, upstream_program.program())
    reported = []
    for number in range(5):
        labels = {RUN_LABEL: f"{folder.name}-{number}", OWNER_LABEL: gone}
        name = f"gateway-proof-{folder.name}-{number}"
        network = daemon.client.networks.create(name, labels=labels)
        container = daemon.client.containers.create(
            image,
            ["serve", "--model=0.0.0.0:8080", "--control=0.0.0.0:8081"],
            name=name,
            labels=labels,
            network=network.name,
            mounts=[Mount(target="/proof", source="", type="volume", labels=labels)],
        )
        container.start()
        with ThreadPoolExecutor() as pool:
            request = pool.submit(container.remove, force=True, v=True)
            outcomes = [str(each) for each in sweep.containers_and_networks(daemon.client)]
            if isinstance(request.exception(), APIError):
                continue  # the sweep was first
        run = f"{name} of run {folder.name}-{number}"
        assert outcomes.count(f"swept: network {run}") == 1
        reported.append(outcomes.count(f"swept: container {run}"))
        assert traces(daemon.client, folder) == []
    assert 1 in reported
    assert {*reported} <= {0, 1}


# Docker's client leaves a socket open that it could not connect, while no daemon answers yet.
@pytest.mark.filterwarnings(r"ignore:unclosed <socket\.socket .*family=1,:ResourceWarning")
def test_a_daemon_that_stops_in_mid_run_is_told_and_the_next_run_sweeps_what_was_left(
    start: Start, modules: object, fake_gateway: FakeGateway, tmp_path: Path, folder: Path
) -> None:
    assert modules
    with own_daemon(tmp_path) as first:
        image = fake_gateway("forward", on=server.Daemon(first.client, "", first.platform))
        options = ("--engine=docker", f"--gateway-image={image}")
        session = start(
            "baseline", folder, *options, *UNCONNECTED, "--repeat=500", **first.settings
        )
        runs_cells(first.client, folder)
    assert session.wait() != 0
    assert GONE.fullmatch(session.last_words), session.stderr
    run, results = session.read()
    assert run.failure == session.last_words.removeprefix("error: ")
    assert results[-1].verdict is Verdict.INCONCLUSIVE
    # A daemon that is stopped ends its containers first.
    assert re.match(
        r"the (upstream|gateway|relay) (exited with status \d+|cannot be looked at any more: the "
        r"Docker daemon does not answer \(.+\)) before the matrix was done",
        results[-1].reason,
    )
    with own_daemon(tmp_path) as again:
        left = traces(again.client, folder)
        assert len([name for name in left if name.startswith("container ")]) == 3
        following = folder.with_name(f"{folder.name}-next")
        session = start("baseline", following, *options, "--repeat=1", **again.settings)
        assert session.wait() != 0
        told = session.stdout.splitlines()
        swept = [line.partition(" of run ")[0] for line in told if line.startswith("swept: ")]
        assert sorted(swept) == sorted(f"swept: {name}" for name in left)
        assert traces(again.client, folder) == []
