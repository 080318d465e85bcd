"""What Docker is told of each part: the rules that all of them live under."""

from __future__ import annotations

import io
import tarfile
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from docker.errors import NotFound
from testcontainers.core.config import testcontainers_config

from containers.docker import parts
from containers.docker.parts import OWNER_LABEL, RUN_LABEL, OwnNetwork, Part
from wasm.foundation import owners
from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Callable

RUNNING = {"Running": True, "Status": "running", "ExitCode": 0}


class Container:
    """A container as docker's client shows it."""

    id = "c0ffee"
    short_id = "c0ff"

    def __init__(self, **state: Any) -> None:
        self.attrs: dict[str, Any] = {
            "State": RUNNING | state,
            "NetworkSettings": {"Ports": {}},
        }
        self.archives: list[tuple[str, bytes]] = []
        self.removed: list[dict[str, bool]] = []
        self.gone = False

    def reload(self) -> None:
        """Fail when it is gone."""
        if self.gone:
            raise NotFound("404")

    def remove(self, **how: bool) -> None:
        """Note how it was removed."""
        self.reload()
        self.removed.append(how)

    def put_archive(self, folder: str, archive: bytes) -> bool:
        """Keep what was copied into it."""
        self.archives.append((folder, archive))
        return True

    def logs(self, **_: Any) -> bytes:
        """Return two lines."""
        return b"one\ntwo\n"


@pytest.fixture(autouse=True)
def docker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """No daemon: what it would be told is kept instead."""
    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)
    seen = SimpleNamespace(created=[], container=Container())

    class Client:
        client = SimpleNamespace(close=lambda: None)

        def __init__(self, **_: Any) -> None:
            pass

        def create(self, image: str, **settings: Any) -> Container:
            seen.created.append({"image": image, **settings})
            return seen.container  # type: ignore[no-any-return]

        def start(self, container: Container) -> None:
            pass

        def client_networks_create(self, name: str, settings: dict[str, Any]) -> Any:
            seen.created.append({"name": name, **settings})
            return SimpleNamespace(name=name, remove=lambda: None, reload=lambda: None, attrs={})

    monkeypatch.setattr("testcontainers.core.container.DockerClient", Client)
    monkeypatch.setattr("testcontainers.core.network.DockerClient", Client)
    return seen


@pytest.fixture
def part() -> Callable[..., Part]:
    """Give a function that makes a part."""

    def made(**other: Any) -> Part:
        settings: dict[str, Any] = {"image": "img:1", "network": None, "command": ["serve"]}
        return Part("upstream", "run-1", **settings | other)

    return made


def test_every_part_is_held_to_the_rules(docker: Any, part: Any) -> None:
    with part():
        pass
    (told,) = docker.created
    assert told["cap_drop"] == ["ALL"]
    assert told["security_opt"] == ["no-new-privileges:true"]
    assert told["read_only"] is True
    assert told["user"] == "65532:65532"
    assert (told["mem_limit"], told["pids_limit"]) == ("2g", 256)
    assert told["labels"] == {RUN_LABEL: "run-1", OWNER_LABEL: str(owners.here())}
    assert told["name"] == "gateway-proof-run-1-upstream"
    assert told["tmpfs"] == {"/tmp": "size=64m"}  # noqa: S108 - in the container
    assert told["log_config"] == {"Type": "json-file", "Config": {}}
    assert told["volumes"] == {}
    assert told["ports"] == {}
    assert not {"privileged", "cap_add", "network_mode", "mounts"} & told.keys()
    assert docker.container.removed == [{"force": True, "v": True}]


def test_a_rule_can_be_lifted_by_name_only(docker: Any, part: Any) -> None:
    with part(cap_add=["NET_ADMIN"], user="0:0"):
        pass
    (told,) = docker.created
    assert (told["cap_add"], told["user"]) == (["NET_ADMIN"], "0:0")
    assert told["cap_drop"] == ["ALL"]
    assert told["read_only"] is True


def test_the_prefix_that_testcontainers_puts_before_images_is_not_applied(
    docker: Any, part: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX", "mirror.example/")
    monkeypatch.setattr(testcontainers_config, "hub_image_name_prefix", "mirror.example/")
    with part(image="registry.example/g@sha256:1"):
        pass
    assert docker.created[0]["image"] == "registry.example/g@sha256:1"


def test_published_ports_are_on_this_machine_only_and_chosen_by_docker(
    docker: Any, part: Any
) -> None:
    """A port that is taken cannot be a fault here: nobody but Docker chooses one."""
    docker.container.attrs["NetworkSettings"]["Ports"] = {
        "1/tcp": [{"HostIp": "127.0.0.1", "HostPort": "4001"}],
        "2/tcp": [{"HostIp": "127.0.0.1", "HostPort": "4002"}],
        "3/tcp": None,
    }
    with part().with_published(1, 2) as relay:
        assert relay.published() == {1: 4001, 2: 4002}
    assert docker.created[0]["ports"] == {"1/tcp": ("127.0.0.1",), "2/tcp": ("127.0.0.1",)}


def test_a_port_that_is_not_published_after_all_is_an_error(part: Any) -> None:
    with part().with_published(1) as relay, pytest.raises(GatewayError) as caught:
        relay.published()
    assert caught.value.sentence == (
        "the upstream's ports 1/tcp are not published; expected Docker to choose one on 127.0.0.1 "
        "for each; see the daemon's log"
    )


def test_files_go_into_a_volume_readable_by_all_in_one_archive_and_folders_can_be_written(
    docker: Any, part: Any
) -> None:
    with part().with_volume().with_files({"a.json": b"{}", "c/b.wasm": b"\0asm"}):
        pass
    (mount,) = docker.created[0]["mounts"]
    assert (mount["Target"], mount["Type"], mount["Source"]) == ("/proof", "volume", "")
    assert mount["VolumeOptions"]["Labels"] == parts.labels("run-1")
    ((folder, archive),) = docker.container.archives
    assert folder == "/proof"
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert [(each.name, each.mode, each.size, each.uid) for each in tar] == [
            ("c", 0o755, 0, 65532),
            ("a.json", 0o644, 2, 0),
            ("c/b.wasm", 0o644, 4, 0),
        ]


@pytest.mark.parametrize(
    ("state", "end"),
    [
        ({}, None),
        ({"Running": False, "Status": "created"}, None),
        ({"Running": False, "Status": "exited", "ExitCode": 3}, "exited with status 3"),
        (
            {"Running": False, "Status": "exited", "ExitCode": 137},
            "exited with status 137 (SIGKILL)",
        ),
        ({"Running": False, "Status": "exited", "ExitCode": 255}, "exited with status 255"),
        (
            {"Running": False, "Status": "exited", "ExitCode": 137, "OOMKilled": True},
            "was killed for its memory (more than 2g)",
        ),
    ],
)
def test_how_a_part_ended(docker: Any, part: Any, state: dict[str, Any], end: str | None) -> None:
    docker.container = Container(**state)
    with part() as started:
        assert started.end == end


def test_a_part_that_somebody_removed_has_ended_and_is_no_trouble_to_remove(
    docker: Any, part: Any
) -> None:
    with part() as started:
        docker.container.gone = True
        assert started.end == "was removed"
    assert docker.container.removed == []


def test_a_part_whose_daemon_is_gone_cannot_be_looked_at(
    docker: Any, part: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    with part() as started:
        monkeypatch.setattr(docker.container, "reload", refuse)
        assert started.end == (
            "cannot be looked at any more: the Docker daemon does not answer ([Errno 111] "
            "Connection refused)"
        )
        monkeypatch.undo()


@pytest.mark.parametrize(("internal", "name"), [(True, "inside"), (False, "outside")])
def test_a_network_is_named_and_labelled_for_its_run(
    docker: Any,
    internal: bool,  # noqa: FBT001 - a row of the table
    name: str,
) -> None:
    with OwnNetwork("run-1", internal=internal):
        pass
    assert docker.created == [
        {
            "name": f"gateway-proof-run-1-{name}",
            "labels": parts.labels("run-1"),
            "internal": internal,
            "driver": "bridge",
        }
    ]
