"""Sweeping up after runs that died without cleaning up; what belongs to a live run is not touched.

Containers, networks and volumes are found by their labels; folders of work in progress by their
names, and processes by the folder that their environment names. Each names its owner (see
ownership.py), and only an owner known to be gone loses anything.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from containers import docker_daemon
from containers.records import EngineKind
from wasm import cache
from wasm.errors import GatewayError
from wasm.ownership import Owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import docker

_ENDED_WITHIN_S = 2.0
_REMOVED_WITHIN_S = 20.0
_PAUSE_S = 0.1
_CONFLICT = 409
_UNDER_WAY = "already in progress"


@dataclass(frozen=True)
class Swept:
    """What was removed, each in a few words, what could not be, and what is still in use."""

    removed: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """What to tell."""
        return (
            *(f"swept: {name}" for name in self.removed),
            *(f"could not be swept: {name}" for name in self.stuck),
            *(f"kept: {name}" for name in self.kept),
        )

    def __add__(self, other: Swept) -> Swept:
        return Swept(self.removed + other.removed, self.stuck + other.stuck, self.kept + other.kept)


def of_dead_runs(engine: EngineKind) -> Swept:
    """Remove what dead runs left: what works on and where, and with Docker what Docker has of it.

    Raises:
        GatewayError: With the docker engine, no daemon answers.
    """
    swept = work()
    if engine is EngineKind.DOCKER:
        with contextlib.closing(docker_daemon.connect()) as daemon, docker_daemon.errors_told():
            return swept + containers_and_networks(daemon.client)
    return swept


def everything_unused() -> Swept:
    """Remove what dead runs left, and then what can be made again: our images, and the cache.

    Nothing is made less by a daemon that does not answer: that is told, and the rest is done.
    """
    swept = work()
    try:
        with contextlib.closing(docker_daemon.connect()) as daemon, docker_daemon.errors_told():
            swept += containers_and_networks(daemon.client)
            swept += images(daemon.client)
    except GatewayError as error:
        swept += Swept(kept=(f"whatever Docker has: {error.sentence.partition('; expected')[0]}",))
    return swept + _cache()


def work() -> Swept:
    """End what dead runs started to build and test, and remove the folders that it worked in."""
    removed: list[str] = []
    stuck: list[str] = []
    folders = cache.abandoned()
    # First what may still write there: Go goes on when whoever started it is killed.
    ended = []
    for process in _working_in(folders) if folders else ():
        with contextlib.suppress(psutil.NoSuchProcess):
            name = f"process {process.pid} ({process.name()}), which a dead run had started"
            process.kill()
            ended.append(process)
            removed.append(name)
    psutil.wait_procs(ended, timeout=_ENDED_WITHIN_S)
    for folder in folders:
        cache.remove(folder)
        (stuck if folder.exists() else removed).append(f"work folder {folder.name}")
    return Swept(tuple(removed), tuple(stuck))


def _working_in(folders: Iterable[Path]) -> Iterator[psutil.Process]:
    """Give the processes whose environment names one of some folders (GOTMPDIR, GIT_...).

    Not those that work there otherwise: a shell of the user's may stand in it, for a look.
    """
    names = [str(folder) for folder in folders]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            if any(name in value for value in process.environ().values() for name in names):
                yield process


def containers_and_networks(client: docker.DockerClient) -> Swept:
    """Remove the containers, then the networks and volumes, of dead runs."""
    from docker.errors import APIError, NotFound  # noqa: PLC0415 - see docker_daemon

    from containers.docker_parts import RUN_LABEL  # noqa: PLC0415 - likewise

    removed, stuck = [], []
    ways: dict[str, dict[str, Any]] = {
        "container": {"force": True, "v": True},
        "network": {},
        "volume": {"force": True},
    }
    for kind, thing, labels in _ours(client):
        owner = _owner(labels)
        if owner is None or not owner.known_to_be_gone:
            continue
        name = f"{kind} {thing.name} of run {labels.get(RUN_LABEL, '?')}"
        try:
            thing.remove(**ways[kind])
        except NotFound:
            continue  # another run's sweep has it
        except APIError as error:
            if not (_being_removed(error) and _gone_in_time(thing)):
                stuck.append(f"{name}: {error.explanation}")
        else:
            removed.append(name)
    return Swept(tuple(removed), tuple(stuck))


def images(client: docker.DockerClient) -> Swept:
    """Remove the images that were assembled here, unless a live run may be about to use them."""
    from docker.errors import APIError, NotFound  # noqa: PLC0415 - see docker_daemon

    from containers.docker_images import IMAGE_LABEL  # noqa: PLC0415 - likewise
    from containers.docker_parts import RUN_LABEL  # noqa: PLC0415 - likewise

    removed, kept = [], []
    found = client.images.list(filters={"label": IMAGE_LABEL})
    live = {
        labels.get(RUN_LABEL, "?")
        for _, _, labels in _ours(client)
        if (owner := _owner(labels)) and not owner.known_to_be_gone
    }
    for image in found:
        name = f"image {(image.tags or [image.short_id])[0]}"
        if live:
            kept.append(f"{name}, which run {min(live)} may be using")
            continue
        try:
            client.images.remove(image.id)
        except NotFound:
            continue
        except APIError as error:
            kept.append(f"{name}: {error.explanation}")
        else:
            removed.append(name)
    return Swept(tuple(removed), kept=tuple(kept))


def _cache() -> Swept:
    removed = cache.empty()
    if removed is None:
        return Swept(kept=(f"the cache in {cache.root()}, which a live run is using",))
    return Swept(tuple(f"{count} of {kind} in the cache" for kind, count in removed.items()))


def _ours(client: docker.DockerClient) -> Iterator[tuple[str, Any, dict[str, str]]]:
    """Give all that has an owner, with its labels: containers, then what they are attached to.

    Each kind is listed when those before it have been dealt with.
    """
    from containers.docker_parts import OWNER_LABEL  # noqa: PLC0415 - see docker_daemon

    label = {"label": OWNER_LABEL}
    for each in client.containers.list(all=True, filters=label, ignore_removed=True):
        yield "container", each, each.labels
    for each in client.networks.list(filters=label):
        yield "network", each, each.attrs.get("Labels") or {}
    for each in client.volumes.list(filters=label):
        yield "volume", each, each.attrs.get("Labels") or {}


def _owner(labels: dict[str, str]) -> Owner | None:
    from containers.docker_parts import OWNER_LABEL  # noqa: PLC0415 - see docker_daemon

    return Owner.parse(labels.get(OWNER_LABEL, ""))


def _being_removed(error: Any) -> bool:  # noqa: ANN401 - docker's own, imported late
    return error.status_code == _CONFLICT and _UNDER_WAY in str(error.explanation)


def _gone_in_time(thing: Any) -> bool:  # noqa: ANN401 - docker's own, imported late
    """Wait for what another run's sweep is removing: its networks can be removed only then."""
    from docker.errors import NotFound  # noqa: PLC0415 - see docker_daemon

    deadline = time.monotonic() + _REMOVED_WITHIN_S
    while time.monotonic() < deadline:
        try:
            thing.reload()
        except NotFound:
            return True
        time.sleep(_PAUSE_S)
    return False
