"""The Docker daemon: whether one answers, and that it is one we can work with."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import docker  # noqa: TC004 - see connect

# For one request to the daemon: generous for a busy one, bounded for one that hangs.
API_TIMEOUT_S = 60
_PROBE_TIMEOUT_S = 5
_SOCKET = Path("/var/run/docker.sock")
_LOCAL = {"", "localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True)
class Daemon:
    """A daemon that answered.

    Attributes:
        client: Its client.
        version: The server's version.
        platform: What its containers run on, such as ``linux/amd64``.
    """

    client: docker.DockerClient
    version: str
    platform: str

    def close(self) -> None:
        """Close the client's connections."""
        self.client.close()


def connect() -> Daemon:
    """Return the daemon that DOCKER_HOST or Docker's own context names, else the local one.

    Raises:
        GatewayError: None answers, or it runs on another machine.
    """
    if "DOCKER_HOST" not in os.environ and not _SOCKET.exists() and not _context().exists():
        raise GatewayError(
            f"no Docker daemon: there is no {_SOCKET} and DOCKER_HOST is not set; expected one "
            "that answers; start it, or use --engine process"
        )
    # Importing these takes a quarter of a second, which a machine without Docker need not wait.
    import requests  # noqa: PLC0415
    from docker.errors import DockerException  # noqa: PLC0415
    from testcontainers.core.config import testcontainers_config  # noqa: PLC0415
    from testcontainers.core.docker_client import DockerClient, get_docker_host  # noqa: PLC0415

    testcontainers_config.ryuk_disabled = True  # our own sweep, see containers/sweep.py
    host = get_docker_host() or ""
    _refuse_remote(host)
    try:
        client = DockerClient(timeout=_PROBE_TIMEOUT_S).client
        try:
            answer = client.version()
        except BaseException:
            client.close()
            raise
    except (DockerException, requests.RequestException, OSError) as error:
        raise GatewayError(
            f"no Docker daemon answers at {host or _SOCKET} ({_cause(error)}); expected one that "
            "this user may use; start it, or use --engine process"
        ) from error
    client.api.timeout = API_TIMEOUT_S
    return Daemon(client, answer["Version"], f"{answer['Os']}/{answer['Arch']}")


@contextlib.contextmanager
def errors_told() -> Iterator[None]:
    """Turn what Docker's client raises into the sentence that says so."""
    import requests  # noqa: PLC0415 - see connect
    from docker.errors import APIError, DockerException  # noqa: PLC0415

    try:
        yield
    except APIError as error:
        raise GatewayError(
            f"the Docker daemon refused: {error.explanation or error}; expected it to run the "
            "testbed's containers; see its own log"
        ) from error
    except (DockerException, requests.RequestException) as error:
        raise GatewayError(
            f"the Docker daemon does not answer any more ({_cause(error)}); expected it to live as "
            "long as the run; start it again, then run `nox -s clean`"
        ) from error


def _context() -> Path:
    # Path.home raises where there is none.
    return Path(os.path.expanduser("~"), ".docker", "contexts")  # noqa: PTH111


def _refuse_remote(host: str) -> None:
    url = urlsplit(host)
    if url.scheme in {"", "unix", "npipe"}:
        return
    if url.scheme == "ssh" or (url.hostname or "") not in _LOCAL:
        raise GatewayError(
            f"DOCKER_HOST is {host}, a daemon on another machine: the gateway's ports are "
            "published there on 127.0.0.1, out of this machine's reach; expected a daemon of this "
            "machine; run nox on that one, or unset DOCKER_HOST"
        )


def _cause(error: BaseException) -> str:
    """Return the innermost reason, which says more than the layers around it."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
