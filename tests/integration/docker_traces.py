"""What Docker has of a run, waiting for it, and a daemon that may be stopped."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import docker
import pytest
from docker.errors import DockerException

from containers.docker.parts import RUN_LABEL
from tests.integration.running import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def traces(client: Any, folder: Path) -> list[str]:
    """Return every container, network and volume of the runs whose folder has this name."""
    label = {"label": RUN_LABEL}
    kinds = {
        "container": client.containers.list(all=True, filters=label, ignore_removed=True),
        "network": client.networks.list(filters=label),
        "volume": client.volumes.list(filters=label),
    }
    return [
        f"{kind} {each.name}"
        for kind, found in kinds.items()
        for each in found
        if _labels(each).get(RUN_LABEL, "").startswith(f"{folder.name}-")
    ]


def part(client: Any, folder: Path, role: str) -> Any:
    """Wait for a run's container of a role to run, and return it."""
    found: list[Any] = []

    def running() -> bool:
        found[:] = [
            each
            for each in client.containers.list(filters={"label": RUN_LABEL}, ignore_removed=True)
            if each.name.startswith(f"gateway-proof-{folder.name}-")
            and each.name.endswith(f"-{role}")
        ]
        return bool(found)

    until(running)
    return found[0]


def runs_cells(client: Any, folder: Path) -> None:
    """Wait until a session is in the middle of its cells: its upstream has logged attempts."""
    upstream = part(client, folder, "upstream")
    until(lambda: upstream.logs().count(b" model ") > 20)


def _labels(thing: Any) -> dict[str, str]:
    attrs = thing.attrs
    return dict(attrs.get("Labels") or attrs.get("Config", {}).get("Labels") or {})


# --- A daemon that may be stopped ---------------------------------------------------------------


_WITH_LOOPBACK = 'ip link set lo up && exec dockerd "$@"'


@dataclass(frozen=True)
class OwnDaemon:
    """A daemon of a test's own.

    Attributes:
        settings: What a session needs to run with it: its variable, and its network.
    """

    client: docker.DockerClient
    platform: str
    settings: dict[str, Any]


@contextlib.contextmanager
def own_daemon(folder: Path) -> Iterator[OwnDaemon]:
    """Run a Docker daemon whose data is in a folder and outlives it.

    It has a network namespace to itself, since two daemons would take each other's firewall
    rules away; sessions enter that namespace to reach what it publishes on 127.0.0.1.
    """
    if os.geteuid() != 0 or not all(map(shutil.which, ("dockerd", "unshare", "nsenter", "ip"))):
        said = "a Docker daemon of our own needs root, dockerd, unshare, nsenter and ip"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(said)
    # Short, for the name of a socket has 107 characters at most.
    with tempfile.TemporaryDirectory(prefix="d-", dir="/tmp") as short:
        host = f"unix://{short}/d.sock"
        argv = ["--data-root", str(folder / "docker"), "--exec-root", f"{short}/x"]
        argv += ["--pidfile", f"{short}/pid", "--host", host]
        with (folder / "dockerd.log").open("ab") as log:
            process = subprocess.Popen(
                ["unshare", "--net", "sh", "-c", _WITH_LOOPBACK, "sh", *argv],
                stdout=log,
                stderr=log,
            )
        client = docker.DockerClient(base_url=host, timeout=30, version="1.41")
        try:
            until(lambda: _answers(client, process, folder / "dockerd.log"))
            said = client.version()
            yield OwnDaemon(
                client,
                f"{said['Os']}/{said['Arch']}",
                {
                    "env": {"DOCKER_HOST": host},
                    "inside": ("nsenter", f"--net=/proc/{process.pid}/ns/net"),
                },
            )
        finally:
            client.close()
            gc.collect()  # of sockets that were not connected, where a test ignores their warning
            process.terminate()
            process.wait(timeout=60)


def _answers(client: docker.DockerClient, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()[-2000:]
    with contextlib.suppress(DockerException, OSError):
        return bool(client.ping())
    return False
