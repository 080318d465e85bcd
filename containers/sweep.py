"""Sweeping up after runs that died without cleaning up; what belongs to a live run is not touched.

Containers, networks and volumes are found by their labels; folders of work in progress by their
names. Each names its owner (see ownership.py), and only an owner known to be gone loses anything.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from containers import docker_daemon
from containers.records import EngineKind
from wasm import cache
from wasm.errors import GatewayError
from wasm.ownership import Owner

if TYPE_CHECKING:
    import docker


@dataclass(frozen=True)
class Swept:
    """What was removed, each in a few words, and what could not be."""

    removed: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """What to tell."""
        return (
            *(f"swept: {name}" for name in self.removed),
            *(f"could not be swept: {name}" for name in self.stuck),
        )

    def __add__(self, other: Swept) -> Swept:
        return Swept(self.removed + other.removed, self.stuck + other.stuck)


def of_dead_runs(engine: EngineKind) -> Swept:
    """Remove what dead runs left: work folders, and with Docker what Docker has of them."""
    swept = Swept(tuple(f"work folder {path.name}" for path in cache.remove_abandoned()))
    if engine is EngineKind.DOCKER:
        with contextlib.closing(docker_daemon.connect()) as daemon, docker_daemon.errors_told():
            return swept + containers_and_networks(daemon.client)
    return swept


def everything_unused() -> Swept:
    """Remove what dead runs left, and the images assembled here that no container uses."""
    try:
        daemon = docker_daemon.connect()
    except GatewayError:
        return of_dead_runs(EngineKind.PROCESS)
    with contextlib.closing(daemon), docker_daemon.errors_told():
        return of_dead_runs(EngineKind.DOCKER) + images(daemon.client)


def containers_and_networks(client: docker.DockerClient) -> Swept:
    """Remove the containers, then the networks and volumes, of dead runs."""
    from docker.errors import APIError, NotFound  # noqa: PLC0415 - see docker_daemon

    from containers.docker_parts import OWNER_LABEL, RUN_LABEL  # noqa: PLC0415 - likewise

    removed, stuck = [], []
    label = {"label": OWNER_LABEL}
    containers = client.containers.list(all=True, filters=label, ignore_removed=True)
    networks = client.networks.list(filters=label)
    volumes = client.volumes.list(filters=label)
    for kind, thing, how in (
        *(("container", each, {"force": True, "v": True}) for each in containers),
        *(("network", each, {}) for each in networks),
        *(("volume", each, {"force": True}) for each in volumes),
    ):
        labels = _labels(thing)
        owner = Owner.parse(labels.get(OWNER_LABEL, ""))
        if owner is None or not owner.known_to_be_gone:
            continue
        name = f"{kind} {thing.name} of run {labels.get(RUN_LABEL, '?')}"
        try:
            thing.remove(**how)
        except NotFound:
            continue
        except APIError as error:
            stuck.append(f"{name}: {error.explanation}")
        else:
            removed.append(name)
    return Swept(tuple(removed), tuple(stuck))


def _labels(thing: object) -> dict[str, str]:
    attrs = getattr(thing, "attrs", {})
    return dict(attrs.get("Labels") or attrs.get("Config", {}).get("Labels") or {})


def images(client: docker.DockerClient) -> Swept:
    """Remove the images that were assembled here and that no container uses."""
    from docker.errors import APIError  # noqa: PLC0415 - see docker_daemon

    from containers.docker_images import IMAGE_LABEL  # noqa: PLC0415 - likewise

    removed, stuck = [], []
    for image in client.images.list(filters={"label": IMAGE_LABEL}):
        name = (image.tags or [image.short_id])[0]
        try:
            client.images.remove(image.id)
        except APIError as error:
            stuck.append(f"image {name}: {error.explanation}")
        else:
            removed.append(f"image {name}")
    return Swept(tuple(removed), tuple(stuck))
