"""Which Docker daemon is taken, and what is said where none can be."""

from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING, Any

import pytest
import requests
from docker.errors import APIError, DockerException
from testcontainers.core.config import testcontainers_config

from containers.docker import server
from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Docker's client leaves a socket open that it could not connect.
pytestmark = pytest.mark.filterwarnings(
    r"ignore:unclosed <socket\.socket .*family=1,:ResourceWarning"
)

VERSION = {"Version": "20.10.24", "Os": "linux", "Arch": "amd64"}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A machine with no Docker at all: no variable, no socket, no home with contexts."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY"):
        # Set first, so that what testcontainers puts there is taken away again.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(server, "_SOCKET", tmp_path / "docker.sock")
    monkeypatch.setattr(testcontainers_config, "tc_properties", {})
    yield tmp_path
    gc.collect()  # of that socket, as long as its warning is ignored


def refusal() -> str:
    with pytest.raises(GatewayError) as caught:
        server.connect()
    return caught.value.sentence


@pytest.fixture
def answers(serve: Any, answering: Any) -> Callable[[], str]:
    """Give a function that starts a daemon of which only the version is asked."""

    def behaviour(connection: Any, over: Any) -> None:
        answering("200 OK", json.dumps({**VERSION, "ApiVersion": "1.41"}).encode())(
            connection, over
        )

    return lambda: str(serve(behaviour).url).removeprefix("http://")


def test_no_socket_and_no_variable_is_no_daemon(machine: Path) -> None:
    assert refusal() == (
        f"no Docker daemon: there is no {machine}/docker.sock and DOCKER_HOST is not set; expected "
        "one that answers; start it, or use --engine process"
    )


@pytest.mark.parametrize(
    "host", ["tcp://10.1.2.3:2376", "tcp://docker.example:2375", "ssh://me@docker.example"]
)
def test_a_daemon_of_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    assert refusal() == (
        f"DOCKER_HOST is {host}, a daemon on another machine: the gateway's ports are published "
        "there on 127.0.0.1, out of this machine's reach; expected a daemon of this machine; run "
        "nox on that one, or unset DOCKER_HOST"
    )


def test_a_daemon_of_another_machine_named_by_a_context_is_refused(
    monkeypatch: pytest.MonkeyPatch, machine: Path
) -> None:
    monkeypatch.setattr(
        "testcontainers.core.docker_client._get_docker_host_from_context",
        lambda: "ssh://me@docker.example",
    )
    (machine / ".docker" / "contexts").mkdir(parents=True)
    assert refusal().startswith("DOCKER_HOST is ssh://me@docker.example, a daemon on another")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_daemon_of_this_machine_over_tcp_is_taken(
    monkeypatch: pytest.MonkeyPatch, answers: Callable[[], str], name: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://" + answers().replace("127.0.0.1", name))
    daemon = server.connect()
    assert (daemon.version, daemon.platform) == ("20.10.24", "linux/amd64")
    assert daemon.client.api.timeout == server.API_TIMEOUT_S
    assert testcontainers_config.ryuk_disabled
    daemon.close()


def test_a_socket_that_nobody_answers_is_no_daemon(
    monkeypatch: pytest.MonkeyPatch, machine: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{machine}/gone.sock")
    assert refusal() == (
        f"no Docker daemon answers at unix://{machine}/gone.sock ([Errno 2] No such file or "
        "directory); expected one that this user may use; start it, or use --engine process"
    )


def test_a_daemon_that_is_mute_is_given_up_in_time(
    monkeypatch: pytest.MonkeyPatch, serve: Any
) -> None:
    monkeypatch.setattr(server, "_PROBE_TIMEOUT_S", 0.3)
    mute = serve(lambda _connection, over: over.wait(20))
    host = mute.url.replace("http", "tcp")
    monkeypatch.setenv("DOCKER_HOST", host)
    sentence = refusal()
    assert sentence.startswith(f"no Docker daemon answers at {host} (")
    assert "timed out" in sentence


# --- What Docker's client raises ----------------------------------------------------------------


def told(error: Exception) -> str:
    with pytest.raises(GatewayError) as caught, server.errors_told():
        raise error
    assert caught.value.__cause__ is error
    return caught.value.sentence


def test_a_refusal_of_the_daemon_is_told_in_its_words() -> None:
    assert told(APIError("500", explanation="no space left on device")) == (
        "the Docker daemon refused: no space left on device; expected it to run the testbed's "
        "containers; see its own log"
    )


@pytest.mark.parametrize("kind", [requests.ConnectionError, DockerException])
def test_a_daemon_that_is_gone_is_told_as_that(kind: type[Exception]) -> None:
    error = kind("Connection aborted.")
    error.__context__ = FileNotFoundError(2, "No such file or directory")
    assert told(error) == (
        "the Docker daemon does not answer any more ([Errno 2] No such file or directory); "
        "expected it to live as long as the run; start it again, then run `nox -s clean`"
    )


def test_another_error_is_left_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError), server.errors_told():
        raise ZeroDivisionError
