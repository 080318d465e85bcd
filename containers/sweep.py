"""Sweeping up after runs that died without cleaning up; what belongs to a live run is not touched.

Containers, networks and volumes are found by their labels; folders of work in progress by their
names, and processes by the folder that their environment names. Each names its owner (see
ownership.py), and only an owner known to be gone loses anything.

One sweep works at a time on a machine, and reports each thing as soon as it is gone. So what a
sweep has found and what is gone afterwards is the same list, whoever removed it: a killed run's
last request to Docker may still be under way.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from containers.docker import server
from containers.records import EngineKind
from wasm.foundation import cache
from wasm.foundation.errors import GatewayError
from wasm.foundation.owners import Owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import docker

_ENDED_WITHIN_S = 2.0
_REMOVED_WITHIN_S = 20.0
_ALONE_WITHIN_S = 60.0
_PAUSE_S = 0.1
# What a killed run had asked Docker for may appear between two looks.
_LOOKS = 3
_CONFLICT = 409
_UNDER_WAY = "already in progress"
# Every process of this machine finds it, and a lock on it leaves no file behind.
_MACHINE = "/"


class Fate(enum.StrEnum):
    """What became of a thing."""

    SWEPT = "swept"
    STUCK = "could not be swept"
    KEPT = "kept"


@dataclass(frozen=True)
class Outcome:
    """What became of one thing: its name in a few words, and if it stays the reason."""

    fate: Fate
    name: str

    def __str__(self) -> str:
        return f"{self.fate}: {self.name}"


def of_dead_runs(engine: EngineKind) -> Iterator[Outcome]:
    """Remove what dead runs left: what works on and where, and with Docker what Docker has of it.

    Raises:
        GatewayError: With the docker engine, no daemon answers.
    """
    with _alone():
        yield from work()
        if engine is EngineKind.DOCKER:
            with contextlib.closing(server.connect()) as daemon, server.errors_told():
                yield from containers_and_networks(daemon.client)


def everything_unused() -> Iterator[Outcome]:
    """Remove what dead runs left, and then what can be made again: our images, and the cache.

    Nothing is made less by a daemon that does not answer: that is told, and the rest is done.
    """
    with _alone():
        yield from work()
        try:
            with contextlib.closing(server.connect()) as daemon, server.errors_told():
                yield from containers_and_networks(daemon.client)
                yield from images(daemon.client)
        except GatewayError as error:
            what = error.sentence.partition("; expected")[0]
            yield Outcome(Fate.KEPT, f"whatever Docker has: {what}")
        yield from _cache()


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Let one sweep at a time work on this machine; what two find, both would report, or neither.

    One that is stopped in the middle of its work holds up the others for a minute at most.
    """
    handle = os.open(_MACHINE, os.O_RDONLY)
    try:
        deadline = time.monotonic() + _ALONE_WITHIN_S
        while not _locked(handle) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(handle)  # and so unlocks it, as the kernel does when we are killed


def _locked(handle: int) -> bool:
    """Whether a lock is ours now, or cannot be had at all (a root folder on NFS)."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def work() -> Iterator[Outcome]:
    """End what dead runs started to build and test, and remove the folders that it worked in."""
    folders = cache.abandoned()
    if not folders:
        return
    # First what may still write there: Go goes on when whoever started it is killed.
    yield from _ended(folders)
    for folder in folders:
        cache.remove(folder)
        fate = Fate.STUCK if folder.exists() else Fate.SWEPT
        yield Outcome(fate, f"work folder {folder.name}")


def _ended(folders: list[Path]) -> Iterator[Outcome]:
    """End what works in some folders, and what that has started meanwhile."""
    alive: dict[psutil.Process, str] = {}
    for _ in range(_LOOKS):
        found = dict(_working_in(folders))
        if not found:
            break
        alive |= found
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.kill()
        deadline = time.monotonic() + _ENDED_WITHIN_S
        while not all(map(_has_ended, alive)) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S / 10)
        for process in [each for each in alive if _has_ended(each)]:
            yield Outcome(Fate.SWEPT, alive.pop(process))
    yield from (Outcome(Fate.STUCK, name) for name in alive.values())


def _has_ended(process: psutil.Process) -> bool:
    """Whether it is gone, or only not buried by its parent yet."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


def _working_in(folders: Iterable[Path]) -> Iterator[tuple[psutil.Process, str]]:
    """Give the processes whose environment names one of some folders (GOTMPDIR, GIT_...).

    Each with its name in the report.
    Not those that work there otherwise: a shell of the user's may stand in it, for a look.
    """
    names = [str(folder) for folder in folders]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            if any(name in value for value in process.environ().values() for name in names):
                name = f"process {process.pid} ({process.name()}), which a dead run had started"
                yield process, name


def containers_and_networks(client: docker.DockerClient) -> Iterator[Outcome]:
    """Remove the containers, networks and volumes of dead runs, and report all that is gone then.

    All are listed before the first is removed: a container takes its volume along.
    """
    from containers.docker.parts import RUN_LABEL  # noqa: PLC0415 - see docker_daemon

    swept: set[str] = set()
    stuck: dict[str, str] = {}
    for _ in range(_LOOKS):
        found = {
            f"{kind} {_name(thing)} of run {labels.get(RUN_LABEL, '?')}": (kind, thing)
            for kind, thing, labels in _ours(client)
            if (owner := _owner(labels)) and owner.known_to_be_gone
        }
        stuck, before = {}, len(swept)
        for name, (kind, thing) in found.items():
            if name in swept:
                continue
            reason = _stays(kind, thing)
            if reason is None:
                swept.add(name)
                yield Outcome(Fate.SWEPT, name)
            else:
                stuck[name] = reason
        if len(swept) == before:
            break
    yield from (Outcome(Fate.STUCK, f"{name}: {reason}") for name, reason in stuck.items())


def _stays(kind: str, thing: Any) -> str | None:  # noqa: ANN401 - docker's own, imported late
    """Remove something that Docker has; why it is still there, or None when it is gone."""
    from docker.errors import APIError, NotFound  # noqa: PLC0415 - see docker_daemon

    ways: dict[str, dict[str, bool]] = {
        "container": {"force": True, "v": True},
        "network": {},
        "volume": {"force": True},
    }
    try:
        thing.remove(**ways[kind])
    except NotFound:
        return None
    except APIError as error:
        return None if _being_removed(error) and _gone_in_time(thing) else str(error.explanation)
    return None


def images(client: docker.DockerClient) -> Iterator[Outcome]:
    """Remove the images that were assembled here, unless a live run may be about to use them."""
    from docker.errors import APIError, NotFound  # noqa: PLC0415 - see docker_daemon

    from containers.docker.images import IMAGE_LABEL  # noqa: PLC0415 - likewise
    from containers.docker.parts import RUN_LABEL  # noqa: PLC0415 - likewise

    found = client.images.list(filters={"label": IMAGE_LABEL})
    live = {
        labels.get(RUN_LABEL, "?")
        for _, _, labels in _ours(client)
        if (owner := _owner(labels)) and not owner.known_to_be_gone
    }
    for image in found:
        name = f"image {(image.tags or [image.short_id])[0]}"
        if live:
            yield Outcome(Fate.KEPT, f"{name}, which run {min(live)} may be using")
            continue
        try:
            with contextlib.suppress(NotFound):
                client.images.remove(image.id)
        except APIError as error:
            yield Outcome(Fate.KEPT, f"{name}: {error.explanation}")
        else:
            yield Outcome(Fate.SWEPT, name)


def _cache() -> Iterator[Outcome]:
    emptied = cache.empty()
    if emptied is None:
        yield Outcome(Fate.KEPT, f"the cache in {cache.root()}, which a live run is using")
        return
    for kind, (gone, left) in emptied.items():
        for fate, count in ((Fate.SWEPT, gone), (Fate.STUCK, left)):
            if count:
                yield Outcome(fate, f"{count} of {kind} in the cache")


def _ours(client: docker.DockerClient) -> Iterator[tuple[str, Any, dict[str, str]]]:
    """Give all that has an owner, with its labels: containers, then what they are attached to."""
    from containers.docker.parts import OWNER_LABEL  # noqa: PLC0415 - see docker_daemon

    label = {"label": OWNER_LABEL}
    # Sparse: to inspect a container waits for what is being done to it, its removal for one.
    for each in client.containers.list(all=True, filters=label, sparse=True):
        yield "container", each, each.attrs.get("Labels") or {}
    for each in client.networks.list(filters=label):
        yield "network", each, each.attrs.get("Labels") or {}
    for each in client.volumes.list(filters=label):
        yield "volume", each, each.attrs.get("Labels") or {}


def _name(thing: Any) -> str:  # noqa: ANN401 - docker's own, imported late
    names = thing.attrs.get("Names")  # a container's, in a list that is sparse
    return str(names[0]).lstrip("/") if names else str(thing.name or thing.short_id)


def _owner(labels: dict[str, str]) -> Owner | None:
    from containers.docker.parts import OWNER_LABEL  # noqa: PLC0415 - see docker_daemon

    return Owner.parse(labels.get(OWNER_LABEL, ""))


def _being_removed(error: Any) -> bool:  # noqa: ANN401 - docker's own, imported late
    return error.status_code == _CONFLICT and _UNDER_WAY in str(error.explanation)


def _gone_in_time(thing: Any) -> bool:  # noqa: ANN401 - docker's own, imported late
    """Wait for what is being removed already: its networks can be removed only then."""
    from docker.errors import NotFound  # noqa: PLC0415 - see docker_daemon

    deadline = time.monotonic() + _REMOVED_WITHIN_S
    while time.monotonic() < deadline:
        try:
            thing.reload()
        except NotFound:
            return True
        time.sleep(_PAUSE_S)
    return False
