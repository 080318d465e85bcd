"""The docker engine without Docker: whose end is told, which log is read, what is refused."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self, cast

import pytest
from docker.errors import APIError, DockerException

from containers import admin
from containers.docker import engine as docker_engine
from containers.docker import images
from containers.docker.engine import _ContainerLog, _Life
from containers.docker.images import GatewayImage
from containers.loading import Loadable
from containers.records import AdapterFacts, GatewayKind, Limits
from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Callable

    from containers.docker.parts import OwnNetwork, Part
    from containers.records import Namespace

    Lived = Callable[..., _Life]

KILLED = "exited with status 137 (SIGKILL)"
NOT_YET = GatewayError("the upstream has no address")
PINNED = images.HIGRESS_GATEWAY.partition("@")[2]
ADAPTER = AdapterFacts(original_sha256="", adapted_sha256="", cluster_filter_sha256="", steps=[])


class FakePart:
    """A part of a testbed, as the engine deals with it; it runs until it has an end."""

    def __init__(self, role: str, end: str | None = None) -> None:
        self.role = role
        self.id = f"id of {role}"
        self.argv = [role]
        self.end = end
        self.said = f"first\nlast of {role}\n"
        self.done: list[str] = []

    def last_lines(self) -> str:
        return self.said.strip()

    def quit(self, patience_s: float) -> None:
        self.done.append(f"quit within {patience_s:g} s")

    def streams(self) -> tuple[bytes, bytes]:
        self.done.append("read")
        return f"{self.role} out".encode(), f"{self.role} err".encode()

    def stop(self) -> None:
        self.done.append("removed")


@pytest.fixture(autouse=True)
def _seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_engine, "_SEEN_WITHIN_S", 0.0)


@pytest.fixture
def lived(tmp_path: Path) -> Lived:
    """Give a function that makes a life with parts; Docker lists those that have not ended."""

    def made(*parts: FakePart, kind: GatewayKind = GatewayKind.HIGRESS) -> _Life:
        def listed(*, quiet: bool, filters: dict[str, str]) -> list[str]:
            assert quiet
            assert filters == {"label": f"gateway-proof.run={life.run}"}
            return [part.id for part in parts if part.end is None]

        api = SimpleNamespace(containers=listed)
        daemon = SimpleNamespace(client=SimpleNamespace(api=api), version="20.10")
        plan = SimpleNamespace(folder=tmp_path, gateway=kind, limits=Limits(stop_s=3))
        life = _Life(cast("Any", plan), cast("Any", daemon), cast("Any", None))
        life.parts.update({part.role: cast("Part", part) for part in parts})
        return life

    return made


def error_of(act: Callable[[], object]) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        act()
    return caught.value


# --- Whose end is told --------------------------------------------------------------------------


def told(life: _Life, error: Exception = NOT_YET) -> None:
    with docker_engine._ends_told(life):
        raise error


@pytest.mark.parametrize("error", [NOT_YET, DockerException("no such container")])
def test_a_gateway_that_ended_is_why_something_could_not_be_done(
    lived: Lived, error: Exception
) -> None:
    life = lived(FakePart("upstream"), FakePart("gateway", KILLED))
    assert life.end_of_gateway() == KILLED
    found = error_of(lambda: told(life, error))
    assert found.sentence == (
        f"the gateway {KILLED} before it was ready; expected LIVE from its admin interface; its "
        "last log lines are above"
    )
    assert found.detail == "first\nlast of gateway"
    assert found.__cause__ is error


@pytest.mark.parametrize("role", ["upstream", "relay"])
def test_another_part_that_ended_is_told_in_its_own_sentence_even_if_the_gateway_ended_too(
    lived: Lived, role: str
) -> None:
    for end in (None, KILLED):
        life = lived(FakePart("gateway", end), FakePart(role, "exited with status 3"))
        for found in (error_of(life.end_of_gateway), error_of(lambda life=life: told(life))):  # type: ignore[misc]
            assert found.sentence == (
                f"the {role} exited with status 3 before the gateway was ready; expected it to "
                "live as long as the gateway; its last log lines are above"
            )
            assert found.detail == f"first\nlast of {role}"


@pytest.mark.parametrize("error", [NOT_YET, DockerException("busy")])
def test_where_nothing_ended_the_error_goes_on_as_it_was(lived: Lived, error: Exception) -> None:
    life = lived(FakePart("upstream"), FakePart("gateway"))
    assert life.end_of_gateway() is None
    with pytest.raises(type(error)) as caught:
        told(life, error)
    assert caught.value is error


def test_what_is_no_error_of_a_part_goes_on_and_no_part_is_asked(lived: Lived) -> None:
    with pytest.raises(ZeroDivisionError):
        told(lived(FakePart("gateway", KILLED)), ZeroDivisionError())


def test_the_gateway_has_not_ended_before_it_is_there(lived: Lived) -> None:
    gone = FakePart("upstream")
    life = lived(gone)
    cast("Any", life.daemon.client.api).containers = lambda **_: []
    assert life.end_of_gateway() is None
    with pytest.raises(GatewayError) as caught:
        told(life)
    assert caught.value is NOT_YET


def test_an_end_that_docker_takes_back_is_not_told(lived: Lived) -> None:
    """Asked part by part it says one has ended, and lists it as running a moment later."""
    life = lived(FakePart("upstream"), FakePart("gateway", KILLED))
    cast("Any", life.daemon.client.api).containers = lambda **_: ["upstream", "gateway"]
    with pytest.raises(GatewayError) as caught:
        told(life)
    assert caught.value is NOT_YET


def test_a_testbed_runs_as_long_as_each_of_its_parts_does(lived: Lived) -> None:
    gateway = FakePart("gateway")
    life = lived(FakePart("upstream"), gateway)
    assert life.running()
    gateway.end = KILLED
    assert not life.running()


def test_what_ended_is_told_with_its_last_log_line_if_it_has_one(lived: Lived) -> None:
    gateway = FakePart("gateway")
    life = lived(FakePart("upstream"), gateway)
    assert life.trouble() is None
    gateway.end = KILLED
    assert life.trouble() == (
        f"the gateway {KILLED} before the matrix was done; its last log line: last of gateway"
    )
    gateway.said = ""
    assert life.trouble() == f"the gateway {KILLED} before the matrix was done"


def test_docker_is_given_a_moment_to_see_that_a_part_has_ended(
    lived: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_engine, "_SEEN_WITHIN_S", 10.0)
    gateway = FakePart("gateway")
    life = lived(gateway)
    later = threading.Timer(0.1, lambda: setattr(gateway, "end", KILLED))
    later.start()
    start = time.monotonic()
    assert str(life.trouble()).startswith(f"the gateway {KILLED} before the matrix was done")
    assert time.monotonic() - start < 5
    later.join()


# --- Which log is read --------------------------------------------------------------------------


class Log:
    """A container whose log answers, or fails, and keeps what it was asked."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self.error = error

    def get_wrapped_container(self) -> Any:
        return self

    def logs(self, **how: Any) -> bytes:
        self.asked.append(how)
        if self.error:
            raise self.error
        return b"said \xff\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_the_whole_log_is_asked_for_from_its_beginning_and_of_a_cell_what_came_since(
    stream: str,
) -> None:
    log = Log()
    read = _ContainerLog(cast("Part", log), stream)
    assert read.since(0) == "said \ufffd\n"
    assert read.since(1234.5) == "said \ufffd\n"
    of = {"stdout": stream == "stdout", "stderr": stream == "stderr"}
    assert log.asked == [
        {**of, "since": None, "tail": "all"},
        {**of, "since": 1234.5, "tail": docker_engine._NEWEST_LINES},
    ]


def test_a_cell_reads_more_lines_than_a_trace_of_go_and_a_burst_of_the_access_log_have() -> None:
    """Measured: 1718 lines for one goroutine; 64 kB of access log are some 250 lines."""
    assert docker_engine._NEWEST_LINES >= 2 * (1718 + 250)


@pytest.mark.parametrize("error", [DockerException("gone"), ConnectionRefusedError()])
def test_a_log_that_cannot_be_read_is_empty(error: Exception) -> None:
    assert _ContainerLog(cast("Part", Log(error)), "stderr").since(1) == ""


def test_a_mark_is_the_time_as_docker_dates_its_lines() -> None:
    before = time.time()
    assert before <= _ContainerLog(cast("Part", Log()), "stdout").mark() <= time.time()


# --- What could be reached ----------------------------------------------------------------------


@pytest.fixture
def closing(
    lived: Lived, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Callable[[], Namespace]]:
    """Give a function that closes a gateway's network, with what is found of its routes."""

    def prepared(stdout: bytes, status: int = 0) -> Callable[[], Namespace]:
        class Look(FakePart):
            def __init__(self, role: str, run: str, **settings: Any) -> None:
                super().__init__(role)
                assert run == life.run
                assert settings["network_mode"] == "container:id of gateway"
                assert settings["command"] == ["routes", "--close"]
                self.said = "not permitted"

            def __enter__(self) -> Self:
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def wait(self) -> int:
                return status

            def streams(self) -> tuple[bytes, bytes]:
                return stdout, b""

        gateway = FakePart("gateway")
        life = lived(gateway)
        monkeypatch.setattr(docker_engine, "Part", Look)
        return lambda: docker_engine._closed(life, "mock:1", cast("Part", gateway))

    return prepared


ROUTES = [{"interface": "eth0", "destination": "172.18.0.0/16"}]


def test_a_network_without_a_default_route_is_recorded_as_it_was_found(closing: Any) -> None:
    found = closing(json.dumps({"routes": ROUTES, "default_route": False}).encode())()
    assert (found.part, found.routes, found.default_route) == ("gateway", ROUTES, False)


def test_a_default_route_that_is_left_is_refused(closing: Any) -> None:
    left = json.dumps({"routes": ROUTES, "default_route": True}).encode()
    assert error_of(closing(left)).sentence == (
        "the gateway's network still has a default route, so a retry could reach a real provider; "
        "expected an internal network; check this Docker daemon's network driver"
    )


def test_a_network_that_could_not_be_closed_is_refused_with_the_reason(closing: Any) -> None:
    assert error_of(closing(b"", 1)).sentence == (
        "the gateway's network could not be closed (exit status 1): not permitted; expected to "
        "remove its default route; check what this Docker daemon allows containers"
    )


# --- What is recorded ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "digest", "adapter", "right"),
    [
        (GatewayKind.HIGRESS, PINNED, None, True),
        (GatewayKind.HIGRESS, f"sha256:{'0' * 64}", None, False),
        (GatewayKind.HIGRESS, PINNED, ADAPTER, False),
        (GatewayKind.ENVOY, PINNED, None, False),
    ],
    ids=["the pinned image", "another image", "another module", "stock Envoy"],
)
def test_only_the_pinned_image_run_unmodified_is_release_evidence(  # noqa: PLR0913 - a row of the table
    lived: Lived,
    tmp_path: Path,
    kind: GatewayKind,
    digest: str,
    adapter: AdapterFacts | None,
    *,
    right: bool,
) -> None:
    program = tmp_path / "upstream"
    program.write_bytes(b"")
    made = docker_engine._Makings(
        Loadable(Path("plugin.wasm"), None, adapter),
        cast("OwnNetwork", None),
        GatewayImage("higress/gateway:2", "sha256:1d", digest, "linux/amd64"),
        program,
        "mock:1",
    )
    facts = docker_engine._facts(lived(FakePart("gateway"), kind=kind), made, b"{}", "1.36")
    assert facts.gateway.release_evidence is right
    assert (facts.gateway.kind, facts.gateway.digest) == (kind, digest)
    assert (facts.gateway.image, facts.gateway.envoy_version) == ("higress/gateway:2", "1.36")
    assert (facts.adapter, facts.docker_server) == (adapter, "20.10")
    assert facts.commands == {"gateway": ["gateway"]}


# --- Closing ------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, str]]:
    """Give a function that reads every log that was kept; the gateway counted nothing."""
    monkeypatch.setattr(admin, "snapshot", lambda _url, _folder: None)
    return lambda: {each.name: each.read_text() for each in (tmp_path / "logs").iterdir()}


WHOLE = {
    "access.log": "gateway out",
    "gateway.log": "gateway err",
    "relay.log": "relay err",
    "upstream.log": "upstream err",
}


def test_every_part_is_ended_read_and_then_removed(lived: Lived, kept: Any) -> None:
    parts = [FakePart(role) for role in ("upstream", "gateway", "relay")]
    lived(*parts).close()
    assert kept() == WHOLE
    for part in parts:
        assert part.done == ["quit within 3 s", "read", "removed"]


@pytest.mark.parametrize("at_fault", ["upstream", "gateway", "relay"])
@pytest.mark.parametrize("step", ["quit", "streams", "stop"])
def test_an_error_of_one_parts_ending_does_not_lose_the_logs_of_the_others(
    lived: Lived, kept: Any, at_fault: str, step: str
) -> None:
    def refuse(*_: object) -> None:
        raise APIError("500", explanation="busy")

    parts = {role: FakePart(role) for role in ("upstream", "gateway", "relay")}
    setattr(parts[at_fault], step, refuse)
    with pytest.raises(APIError, match="busy"):
        lived(*parts.values()).close()
    own = {f"{at_fault}.log"} | ({"access.log"} if at_fault == "gateway" else set())
    lost = own if step != "stop" else set()
    assert kept() == {name: text for name, text in WHOLE.items() if name not in lost}
    for role, part in parts.items():
        assert role == at_fault or part.done[-1] == "removed"


def test_counters_that_cannot_be_kept_do_not_lose_the_logs(
    lived: Lived, kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_url: str, _folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(admin, "snapshot", full)
    with pytest.raises(OSError, match="No space left"):
        lived(*(FakePart(role) for role in ("upstream", "gateway", "relay"))).close()
    assert kept() == WHOLE
