"""The docker engine is the equal of the process engine, isolated, and leaves nothing."""

from __future__ import annotations

import io
import json
import re
import stat
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from containers.docker import engine as docker_engine
from containers.docker.parts import OWNER_LABEL, RUN_LABEL
from containers.records import GatewayKind
from sessions.matrix import cells
from sessions.matrix.case import Mode
from tests.integration.docker_traces import part, traces
from wasm.foundation import owners
from wasm.foundation.errors import BuildError, GatewayError
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from containers.docker.server import Daemon
    from containers.testbed import Plan, Testbed
    from sessions.matrix.case import Case
    from sessions.matrix.records import Result
    from tests.integration.running import Session

    Both = tuple[Session, Session]

pytestmark = [pytest.mark.docker, pytest.mark.timeout(180)]

ROLES = {"gateway", "relay", "upstream"}


@pytest.fixture(params=[0, 1], ids=list(Variant))
def session(request: pytest.FixtureRequest, both_docker: Both) -> Session:
    return both_docker[request.param]


def cleanup(session: Session) -> dict[str, Any]:
    return dict(json.loads((session.folder / "cleanup.json").read_bytes()))


# --- The equal of the process engine ------------------------------------------------------------


def seen(result: Result) -> dict[str, Any]:
    """What a cell showed, without what differs from run to run: addresses, times, the first key."""
    return {
        "cell": result.cell.id,
        "verdict": result.verdict,
        "expected": result.expected,
        "as declared": result.as_declared,
        "must fail": result.must_fail,
        "failed": result.failed_checks,
        "checks": [(check.name, check.holds) for check in result.checks],
        "attempts": [
            (each.method, each.target, each.body_sha256, each.step, each.matched)
            for each in result.attempts
        ],
        "response": result.response and (result.response.status, result.response.body),
    }


def test_both_sessions_succeed(both_docker: Both) -> None:
    for session in both_docker:
        assert session.process.returncode == 0, session.stdout + session.stderr
        assert "error: " not in session.stderr


def test_both_engines_give_the_same_cells_checks_and_verdicts(
    both: Both, both_docker: Both
) -> None:
    for by_process, by_docker in zip(both, both_docker, strict=True):
        one, other = by_process.read(), by_docker.read()
        assert [seen(result) for result in one[1]] == [seen(result) for result in other[1]]
        assert len(other[1]) == 18
        assert one[0].module.sha256 == other[0].module.sha256
        assert one[0].testbed is not None
        assert other[0].testbed is not None
        assert one[0].testbed.adapter == other[0].testbed.adapter
        assert one[0].testbed.gateway.envoy_version == other[0].testbed.gateway.envoy_version


def test_the_comparison_is_proven_and_names_engine_and_image(
    both_docker: Both, report: Callable[..., Any], tmp_path: Path
) -> None:
    status, comparison, words = report(tmp_path, *both_docker)
    assert (status, words) == (0, "")
    assert comparison["verdict"] == "proven"
    assert comparison["engine"] == "docker"
    assert comparison["release_evidence"] is False
    assert re.fullmatch(r"gateway-proof/envoy:[0-9a-f]{24}", comparison["gateway"]["image"])
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", comparison["gateway"]["digest"])


def test_a_run_of_each_engine_cannot_be_compared(
    both: Both, both_docker: Both, report: Callable[..., Any], tmp_path: Path
) -> None:
    status, comparison, words = report(tmp_path, both[0], both_docker[1])
    assert status != 0
    assert comparison is None
    assert "engine (baseline process, fixed docker)" in words


def test_every_log_is_whole(session: Session) -> None:
    logs = session.folder / "logs"
    assert len((logs / "access.log").read_text().splitlines()) == 18
    attempts = [attempt for result in session.read()[1] for attempt in result.attempts]
    assert len(attempts) == 27
    assert (logs / "upstream.log").read_text().count(" model ") == 27
    assert "wasm log kling-text-to-video" in (logs / "gateway.log").read_text()
    assert "cluster.mock-upstream.upstream_rq_total: 27" in (logs / "stats.txt").read_text()
    assert "relay" in (logs / "relay.log").read_text()


# --- What is left, and what could be reached ----------------------------------------------------


def test_nothing_is_left_and_the_record_says_so(session: Session, daemon: Daemon) -> None:
    found = cleanup(session)
    assert len(found["before"]["containers"]) == 3
    assert len(found["before"]["networks"]) == 2
    assert len(found["before"]["volumes"]) == 1
    assert not any(found["after"].values())
    # Three listeners, the gateway's admin interface, the upstream's control port.
    assert len(found["refused"]) == 5
    assert all(found["refused"].values())
    assert traces(daemon.client, session.folder) == []


def test_neither_gateway_nor_upstream_has_a_default_route(session: Session) -> None:
    namespaces = {each["part"]: each for each in cleanup(session)["namespaces"]}
    assert namespaces.keys() == {"gateway", "upstream"}
    for each in namespaces.values():
        assert each["default_route"] is False
        assert each["routes"]
        assert not [route for route in each["routes"] if route["destination"].endswith("/0")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("open-docker")
    return found / found.name


@pytest.fixture(scope="module")
def opened(
    plan: Callable[..., Plan], fake_gateway: Callable[[str], str], folder: Path
) -> Iterator[Testbed]:
    """A testbed that is open; its gateway hands requests on to the upstream."""
    image = fake_gateway("forward")
    planned = plan(folder, gateway=GatewayKind.HIGRESS, gateway_image=image)
    with docker_engine.opened(planned) as testbed:
        yield testbed


@pytest.fixture(scope="module")
def containers(opened: Testbed, daemon: Daemon, folder: Path) -> dict[str, Any]:
    """The containers of the open testbed, by role."""
    assert opened.trouble() is None
    return {role: part(daemon.client, folder, role) for role in ROLES}


def test_only_the_relay_has_published_ports_and_those_on_loopback(
    containers: dict[str, Any], opened: Testbed
) -> None:
    """Docker chose each of them, so none can be one that is taken."""
    published = {
        role: {
            (bound["HostIp"], int(bound["HostPort"]))
            for ports in each.attrs["NetworkSettings"]["Ports"].values()
            for bound in ports or ()
        }
        for role, each in containers.items()
    }
    assert published["gateway"] == published["upstream"] == set()
    assert len(published["relay"]) == 5
    assert {host for host, _ in published["relay"]} == {"127.0.0.1"}
    urls = [*opened.gateway_urls.values(), opened.control_url]
    assert {int(url.rpartition(":")[2]) for url in urls} < {port for _, port in published["relay"]}


def test_gateway_and_upstream_have_an_internal_network_to_themselves(
    containers: dict[str, Any], daemon: Daemon
) -> None:
    networks = {
        role: {name.rpartition("-")[2] for name in each.attrs["NetworkSettings"]["Networks"]}
        for role, each in containers.items()
    }
    assert networks == {
        "gateway": {"inside"},
        "upstream": {"inside"},
        "relay": {"inside", "outside"},
    }
    (name,) = containers["gateway"].attrs["NetworkSettings"]["Networks"]
    inside = daemon.client.networks.get(name)
    assert inside.attrs["Internal"] is True
    assert {each.id for each in inside.containers} == {each.id for each in containers.values()}


@pytest.mark.parametrize("role", ["gateway", "upstream"])
def test_the_kernel_has_no_default_route_for_them(containers: dict[str, Any], role: str) -> None:
    table = Path(f"/proc/{containers[role].attrs['State']['Pid']}/net/route")
    if not table.exists():
        pytest.skip("this daemon's processes cannot be seen from here")
    rows = [line.split() for line in table.read_text().splitlines()[1:]]
    assert rows
    assert [row for row in rows if row[1] == "00000000"] == []


@pytest.mark.parametrize("role", sorted(ROLES))
def test_every_container_is_held_to_the_rules(containers: dict[str, Any], role: str) -> None:
    config, host = containers[role].attrs["Config"], containers[role].attrs["HostConfig"]
    assert config["User"] == "65532:65532"
    assert {row[0] for row in containers[role].top(ps_args="-eo uid,pid")["Processes"]} == {"65532"}
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert host["CapAdd"] is None
    assert host["Privileged"] is False
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    for_listeners = 3 * (160 << 20) if role == "gateway" else 0
    assert (host["Memory"], host["PidsLimit"]) == ((2 << 30) + for_listeners, 256)
    assert host["Binds"] is None
    assert host["LogConfig"] == {"Type": "json-file", "Config": {}}


def test_everything_carries_the_run_and_its_owner(
    containers: dict[str, Any], daemon: Daemon, folder: Path
) -> None:
    assert len(traces(daemon.client, folder)) == 3 + 2 + 1
    label = {"label": f"{OWNER_LABEL}={owners.here()}"}
    volumes = daemon.client.volumes.list(filters=label)
    networks = daemon.client.networks.list(filters=label)
    runs = {each.attrs["Labels"][RUN_LABEL] for each in [*volumes, *networks]}
    runs |= {each.labels[RUN_LABEL] for each in containers.values()}
    assert len([run for run in runs if run.startswith(f"{folder.name}-")]) == 1


def test_files_can_be_read_by_all_and_changed_by_nobody_else(containers: dict[str, Any]) -> None:
    stream, _ = containers["gateway"].get_archive("/proof")
    with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as tar:
        files = {each.name.partition("/")[2]: each for each in tar if each.isfile()}
    assert {"envoy.json", "listeners/listeners.json"} < {*files}
    assert len(files) == 3
    assert {(stat.S_IMODE(each.mode), each.uid) for each in files.values()} == {(0o644, 0)}


# --- Gateways that cannot be run ----------------------------------------------------------------


def refused(plan: Plan, daemon: Daemon, error: type[Exception]) -> Any:
    """Open what cannot be opened; return the error, and see that nothing is left."""
    with pytest.raises(error) as caught, docker_engine.opened(plan):
        pytest.fail("it opened")
    assert traces(daemon.client, plan.folder) == []
    return caught.value


def test_t6_the_unmodified_module_is_refused_before_a_gateway_starts(
    plan: Callable[..., Plan], daemon: Daemon, tmp_path: Path
) -> None:
    error = refused(plan(tmp_path, adapt=False), daemon, BuildError)
    assert error.sentence.startswith("The module speaks proxy-Wasm ABI `0_2_100`, which stock")


def test_t10_two_testbeds_at_once_share_nothing(
    plan: Callable[..., Plan],
    opened: Testbed,
    fake_gateway: Callable[[str], str],
    cases: dict[str, Case],
    tmp_path: Path,
) -> None:
    """Each gateway has its listeners in a network of its own, so no port can be another's."""
    planned = plan(tmp_path, gateway=GatewayKind.HIGRESS, gateway_image=fake_gateway("forward"))
    with docker_engine.opened(planned) as other:
        assert not {*other.gateway_urls.values()} & {*opened.gateway_urls.values()}
        for name, case in cases.items():
            for testbed, own in ((opened, True), (other, False)):
                script = cells.script(case, Mode.DIRECT)
                epochs = [each.install(script) for each in (opened, other)]
                testbed.send(name, cells.request(case, cells.plan((case,), 1)[0]))
                journals = [
                    each.journal(epoch) for each, epoch in zip((opened, other), epochs, strict=True)
                ]
                assert [len(journal.attempts) for journal in journals] == [own, not own]
    assert other.cleanup.complete


def test_t20_an_image_of_another_platform_is_refused_naming_both(
    plan: Callable[..., Plan],
    daemon: Daemon,
    fake_gateway: Callable[..., str],
    tmp_path: Path,
) -> None:
    image = fake_gateway("forward", platform="linux/s390x")
    planned = plan(tmp_path, gateway=GatewayKind.HIGRESS, gateway_image=image)
    assert refused(planned, daemon, GatewayError).sentence == (
        f"{image} is an image for linux/s390x; expected one for {daemon.platform}, which is what "
        "this Docker daemon runs; name another with --gateway-image"
    )


def test_an_image_without_a_gateway_in_it_is_refused(
    plan: Callable[..., Plan], daemon: Daemon, opened: Testbed, tmp_path: Path
) -> None:
    image = opened.facts.upstream_image
    planned = plan(tmp_path, gateway=GatewayKind.HIGRESS, gateway_image=image)
    sentence = refused(planned, daemon, GatewayError).sentence
    assert sentence.startswith(f"the gateway image {image} cannot be run: ")
    assert "/usr/local/bin/envoy" in sentence
    assert sentence.endswith(
        "expected a Higress gateway, whose program is /usr/local/bin/envoy; name another with "
        "--gateway-image"
    )


def test_stock_envoy_run_as_higress_is_told_by_its_own_last_lines(
    plan: Callable[..., Plan], daemon: Daemon, both_docker: Both, tmp_path: Path
) -> None:
    """Without the adapter stock Envoy does not take the module, and says why itself."""
    run, _ = both_docker[0].read()
    assert run.testbed is not None
    image = run.testbed.gateway.image
    planned = plan(tmp_path, gateway=GatewayKind.HIGRESS, gateway_image=image)
    error = refused(planned, daemon, GatewayError)
    assert "does not start with the configuration of any case" in error.sentence
    assert "wasm" in error.detail.lower()
