"""Runs that are killed at random moments, from the making of an image to the report.

After SIGINT and SIGTERM nothing is left at exit; after SIGKILL the next run, or a sweep, removes
what is; and a neighbour that lives through all of it is never harmed. Six kills by default;
``GATEWAY_PROOF_KILLS=50`` takes fifty, ``GATEWAY_PROOF_KILLS_SEED`` other moments. A test's id
begins with the seed.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import docker
import psutil
import pytest
from docker.errors import APIError, ImageNotFound

from containers import envoy
from containers.docker import images, server
from containers.docker.parts import RUN_LABEL
from sessions.evidence.record import store
from sessions.matrix.verdict import Verdict
from tests.integration.running import MATRIX, PROJECT, gone, until
from wasm.foundation.errors import GatewayError
from wasm.foundation.owners import Owner
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.running import Session

    Start = Callable[..., Session]
    Report = Callable[[Path, Session, Session], tuple[int, dict[str, Any], str]]

SEED = int(os.environ.get("GATEWAY_PROOF_KILLS_SEED", "15765"))
KILLS = int(os.environ.get("GATEWAY_PROOF_KILLS", "6"))
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
# By local processes; with everything to be built first; in containers; with an image to be made.
WAYS = ("process", "docker", "image", "cold")
TARGETS = ("step", "step", "nox", "nox and its group")
INTERRUPTED_WITHIN_S = 90.0
# A run takes seven seconds and ends in three, on a machine with much else to do in ten times that.
ENDED_WITHIN_S = 240.0
# Docker goes on with what a killed run had asked it for; each of its steps takes less.
SETTLED_AFTER_S = 1.0

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - looked at, not written
GO_ENDED = r"swept: process \d+ \(go\), which a dead run had started"
OUTLIVES = ("work folder ", "process ")
REPORTED = ("container ", "network ", "volume ", "work folder ")
# The sessions as they are, in the environment that these tests run in.
NOXFILE = f"""\
import os
import sys

sys.path.insert(0, {str(PROJECT)!r})

import nox

from sessions import environment

nox.options.default_venv_backend = "none"
environment.install = lambda session, lock: os.chdir({str(PROJECT)!r})

from sessions import proofs, upkeep
"""


@dataclass(frozen=True)
class Kill:
    """One kill: which signal, to whom, and how far into the run, from 0 to 1."""

    number: int
    signal: signal.Signals
    way: str
    target: str
    moment: float

    @property
    def engine(self) -> str:
        """The engine whose run is killed."""
        return "docker" if self.way in {"docker", "image"} else "process"

    @property
    def name(self) -> str:
        """What it is, in a folder's name."""
        target = self.target.replace(" ", "-")
        return f"{self.number}-{self.way}-{self.signal.name}-{target}-{self.moment:.2f}"


def planned(seed: int, count: int) -> list[Kill]:
    """Choose the kills: the signals in turn, each way with each of them, the rest at random."""
    chance = random.Random(seed)  # noqa: S311 - a moment, no secret
    return [
        Kill(
            number,
            SIGNALS[number % 3],
            WAYS[number // 3 % len(WAYS)],
            chance.choice(TARGETS),
            chance.random(),
        )
        for number in range(count)
    ]


# --- What a run has, and what is left of it -----------------------------------------------------


def listening() -> dict[str, int]:
    """Inode -> port of every TCP socket on which somebody listens."""
    found = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                found[fields[9]] = int(fields[1].rpartition(":")[2], 16)
    return found


@dataclass
class Traces:
    """Where a run can leave something, and what it was seen to have.

    Attributes:
        folder: The run's, or the evidence folder that it is in; its processes name it.
        cache: Its cache folder; shared with others.
        runs: Names of the run's folder, with which its labels begin.
        sockets: Inode -> port of what its processes and containers listened on.
        memory: Files of shared memory that its processes had open.
    """

    folder: Path
    cache: Path
    client: docker.DockerClient | None
    runs: set[str] = field(default_factory=set)
    sockets: dict[str, int] = field(default_factory=dict)
    memory: set[str] = field(default_factory=set)

    def look(self) -> None:
        """Take note of ports and memory while it runs."""
        self.runs |= {self.folder.name, *(each.name for each in self.folder.glob("runs/*"))}
        ports = set()
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                ports |= {
                    each.laddr.port
                    for each in process.net_connections("tcp")
                    if each.status == psutil.CONN_LISTEN
                }
                self.memory |= {
                    each.path
                    for each in process.memory_maps()
                    if each.path.startswith(SHARED_MEMORY)
                }
        for container in self._listed("containers", all=True, ignore_removed=True):
            published = container.attrs["NetworkSettings"]["Ports"] or {}
            ports |= {int(each["HostPort"]) for bound in published.values() for each in bound or ()}
        self.sockets |= {inode: port for inode, port in listening().items() if port in ports}

    def left(self) -> list[str]:
        """Everything of it that is there now."""
        named = [
            f"{kind[:-1]} {each.name}"
            for kind, options in (
                ("containers", {"all": True, "ignore_removed": True}),
                ("networks", {}),
                ("volumes", {}),
            )
            for each in self._listed(kind, **options)
        ]
        processes = [f"process {each.pid} {_words(each)[:3]}" for each in self._processes()]
        ports = [f"port {self.sockets[each]}" for each in self.sockets.keys() & listening().keys()]
        memory = [each for each in self.memory if Path(each).exists()]
        work = [f"work folder {name}" for name in self._work()]
        return sorted([*named, *processes, *ports, *memory, *work])

    def settled(self) -> list[str]:
        """Everything that is left once Docker has done what the run had asked it for.

        Until then a container may be on its way in, or out: then it goes without the next run,
        which has nothing to report.
        """
        deadline = time.monotonic() + INTERRUPTED_WITHIN_S
        before: object = None
        since = time.monotonic()
        while time.monotonic() - since < SETTLED_AFTER_S:
            containers = self._listed("containers", all=True, ignore_removed=True)
            now = self.left(), {each.id: each.status for each in containers}
            if now != before or "removing" in now[1].values():
                before, since = now, time.monotonic()
            assert time.monotonic() < deadline, now
            time.sleep(0.1)
        return self.left()

    def await_gone(self, enough: Callable[[list[str]], bool], within_s: float) -> None:
        """Wait until what is left is little enough; looking takes a while, so not too often."""
        deadline = time.monotonic() + within_s
        while not enough(left := self.left()):
            assert time.monotonic() < deadline, left
            time.sleep(0.2)

    def _work(self) -> list[str]:
        """Folders in the cache whose process has ended without removing them."""
        folders = (self.cache / "work").glob("*")
        owners = {each.name: Owner.parse(each.name.rsplit("-", 2)[-2]) for each in folders}
        return [name for name, owner in owners.items() if owner is None or owner.known_to_be_gone]

    def _processes(self) -> list[psutil.Process]:
        """Those that name the run's folder, or work for whom the run's owner was."""
        dead = [str(self.cache / "work" / name) for name in self._work()]
        found = []
        for process in psutil.process_iter():
            if process.pid == os.getpid():
                continue
            with contextlib.suppress(psutil.Error):
                words = [*_words(process), *process.environ().values()]
                if any(name in word for word in words for name in (str(self.folder), *dead)):
                    found.append(process)
        return [each for each in found if not gone(each)]

    def _listed(self, kind: str, **options: Any) -> list[Any]:
        if self.client is None:
            return []
        found = getattr(self.client, kind).list(filters={"label": RUN_LABEL}, **options)
        return [each for each in found if self._is_ours(each.attrs)]

    def _is_ours(self, attrs: dict[str, Any]) -> bool:
        labels = attrs.get("Labels") or attrs.get("Config", {}).get("Labels") or {}
        run = labels.get(RUN_LABEL, "")
        return any(run.startswith(f"{name}-") for name in self.runs)


def _words(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return list(process.cmdline())
    return []


# --- Runs ---------------------------------------------------------------------------------------


@dataclass
class Running:
    """A run as a user starts it: the step alone, or a nox that starts it."""

    process: subprocess.Popen[bytes]
    traces: Traces
    output: Path
    nox: bool

    @property
    def said(self) -> str:
        """All that it has shown so far."""
        return self.output.read_text(errors="replace")

    @property
    def folders(self) -> list[Path]:
        """The run's folder, if it is known yet."""
        evidence = self.traces.folder
        return sorted(evidence.glob("runs/*-fixed-*")) if self.nox else [evidence]

    def end(self, within_s: float = ENDED_WITHIN_S) -> int:
        """Wait for its end; return the exit status."""
        return self.process.wait(within_s)

    def proved(self) -> None:
        """See that it ran to its end, and that every cell held."""
        assert self.end() == 0, self.said
        assert self.claims_no_more_than_was_seen() == 1, self.said

    def claims_no_more_than_was_seen(self) -> int:
        """See that a record without a failure is a whole one; return how many there are."""
        whole = 0
        for folder in self.folders:
            if (folder / store.SUMS).exists():
                run, results = store.read_run(folder)
                if run.failure == "":
                    whole += 1
                    assert len(results) == len(run.cases) * 2 * run.repeats
                    assert {result.verdict for result in results} == {Verdict.PASS}
        return whole


class Ground:
    """Where the kills of this file happen: a cache, an Envoy to change, and the daemon."""

    def __init__(self, folder: Path, client: docker.DockerClient | None) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.client = client
        self.lasts_s: dict[str, float] = {}
        self.took_s: dict[tuple[str, bool], float] = {}
        self.started: list[Running] = []
        self.noxfile = folder / "noxfile.py"
        self.noxfile.write_text(NOXFILE)

    def environment(self, cache: Path) -> dict[str, str]:
        """Return ours, with a cache of its own and the Python of these tests as ``python``."""
        return {name: value for name, value in os.environ.items() if "PYTEST" not in name} | {
            "GATEWAY_PROOF_CACHE": str(cache),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def another_envoy(self) -> Path:
        """Return an Envoy that no image holds yet: longer than any before."""
        copy = self.folder / "envoy"
        if not copy.exists():
            shutil.copy(envoy.program(None), copy)
        with copy.open("ab") as program:
            program.write(os.urandom(8))
        return copy

    def start(
        self, name: str, engine: str, *options: str, nox: str = "", cache: Path | None = None
    ) -> Running:
        """Start the fixed variant's step, or a nox session, with a folder of its own."""
        folder = self.folder / name
        folder.mkdir()
        if nox:
            argv = ["-m", "nox", "-f", str(self.noxfile), "-s", nox, "--", f"--evidence={folder}"]
        else:
            argv = [*MATRIX, "--variant=fixed", f"--run-dir={folder}"]
            argv += [f"--junit-xml={folder / 'junit.xml'}"]
        output = self.folder / f"{name}.txt"
        with output.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, *argv, f"--engine={engine}", "--gateway=envoy", *options],
                cwd=PROJECT,
                env=self.environment(cache or self.cache),
                stdout=stream,
                stderr=stream,
                process_group=0,
            )
        traces = Traces(folder, cache or self.cache, self.client)
        self.started.append(Running(process, traces, output, bool(nox)))
        return self.started[-1]

    def close(self) -> None:
        """Interrupt what a test that failed has left running."""
        for running in self.started:
            if running.process.poll() is None:
                running.process.send_signal(signal.SIGINT)
                running.end()

    def reached(self, kill: Kill) -> Running:
        """Start what is to be killed, and wait for the moment.

        A run that has ended by then was none to kill; it was faster than those before it, and the
        moment is looked for again in what it took.
        """
        way = kill.way, kill.target == "step"
        for attempt in range(8):
            running = self._start_for(kill, f"{kill.name}-{attempt}")
            start = time.monotonic()
            lasts_s = self.took_s.get(way, self.lasts_s[kill.engine])
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.process.wait(kill.moment * lasts_s)
            if running.process.poll() is None:
                return running
            running.proved()
            self.took_s[way] = min(lasts_s * 0.9, time.monotonic() - start)
        pytest.fail("every run was over before its moment came")

    def _start_for(self, kill: Kill, name: str) -> Running:
        """Start it; with nox, on evidence that has a baseline to report on."""
        options = [f"--envoy={self.another_envoy()}"] if kill.way == "image" else []
        cache = self.folder / f"cache-{name}" if kill.way == "cold" else None
        if kill.target == "step":
            return self.start(name, kill.engine, *options, cache=cache)
        nox = "runtime-fixed"
        running = self.start(name, kill.engine, *options, nox=nox, cache=cache)
        # It takes longer to start than this takes.
        for part in ("runs", "latest"):
            proven = self.folder / f"baseline-{kill.engine}" / part
            shutil.copytree(proven, running.traces.folder / part, symlinks=True, dirs_exist_ok=True)
        return running

    def sweep(self, cache: Path) -> list[str]:
        """Remove what dead runs left; return what was told."""
        return self._told(["-m", "containers", "sweep"], self.environment(cache))

    def clean(self, **env: str) -> list[str]:
        """Run ``nox -s clean``; return what it told."""
        argv = ["-m", "nox", "-f", str(self.noxfile), "-s", "clean"]
        return self._told(argv, self.environment(self.cache) | env)

    def _told(self, argv: list[str], env: dict[str, str]) -> list[str]:
        done = subprocess.run(
            [sys.executable, *argv],
            cwd=PROJECT,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=ENDED_WITHIN_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    def forget_image(self, program: Path) -> None:
        """Remove the image of an Envoy that only this file has, if it was made."""
        with contextlib.closing(server.connect()) as daemon:
            name = _image_of(program, daemon.platform)
            until(lambda: _removed(daemon.client, name))

    def half_images(self) -> set[str]:
        """Images that were imported and have got no name."""
        if self.client is None:
            return set()
        filters = {"label": images.IMAGE_LABEL, "dangling": True}
        return {str(each.id) for each in self.client.images.list(filters=filters)}


def _image_of(program: Path, platform: str) -> str:
    """Name the image of an Envoy, by asking for it where every image is there already."""
    system, _, machine = platform.partition("/")
    image = SimpleNamespace(id="", attrs={"Os": system, "Architecture": machine})
    client = SimpleNamespace(images=SimpleNamespace(get=lambda _: image))
    daemon: Any = SimpleNamespace(client=client, platform=platform)
    return images.envoy_image(daemon, program).reference


def _removed(client: docker.DockerClient, image: str) -> bool:
    """Remove an image; whether it is gone."""
    try:
        client.images.remove(client.images.get(image).id, force=True)
    except ImageNotFound:
        return True
    except APIError:
        return False  # a container of a run that is being swept still has it
    return True


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A ground with a baseline to report on by each engine, and how long a run takes there."""
    # A name that no other run on this machine has: labels begin with those below it.
    folder = tmp_path_factory.mktemp("kills") / secrets.token_hex(4)
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        client = None
        with contextlib.suppress(GatewayError):
            client = stack.enter_context(contextlib.closing(server.connect())).client
        ground = Ground(folder, client)
        stack.callback(ground.close)
        started: dict[str, tuple[float, Running]] = {}
        for engine in ("process", "docker") if client else ("process",):
            running = ground.start(f"baseline-{engine}", engine, nox="runtime-baseline")
            started[engine] = time.monotonic(), running
        for engine, (since, running) in started.items():
            assert running.end() == 0, running.said
            ground.lasts_s[engine] = time.monotonic() - since
        yield ground


@pytest.fixture(scope="module")
def neighbour(ground: Ground) -> Iterator[Running]:
    """A run that has done its cells and stays open beside all the kills."""
    engine = "docker" if ground.client else "process"
    running = ground.start(f"neighbour-{ground.folder.name}", engine, "--keep")
    try:
        until(
            lambda: "kept open" in running.said or running.process.poll() is not None,
            ENDED_WITHIN_S,
        )
        yield running
    finally:
        if running.process.poll() is None:
            running.process.send_signal(signal.SIGINT)
            running.end()


# --- The kills ----------------------------------------------------------------------------------


def kill_params() -> list[Any]:
    docker_too = {"docker": [pytest.mark.docker]}
    return [
        pytest.param(kill, id=f"{SEED}-{kill.name}", marks=docker_too.get(kill.engine, []))
        for kill in planned(SEED, KILLS)
    ]


@pytest.mark.parametrize("kill", kill_params())
def test_a_kill_at_any_moment_leaves_nothing_that_stays(
    ground: Ground, neighbour: Running, kill: Kill
) -> None:
    if kill.engine == "docker" and ground.client is None:
        pytest.skip("no Docker daemon answers")
    half = ground.half_images()
    beside = None
    if kill.number > len(WAYS) * 2 and kill.number % 6 == 5:  # in the middle of its work, too
        beside = ground.start(f"beside-{kill.name}", WAYS[kill.number % 2])
    running = ground.reached(kill)
    running.traces.look()
    send(running, kill)
    status = running.end(INTERRUPTED_WITHIN_S)
    if kill.signal is signal.SIGKILL:
        killed(ground, running, kill)
    else:
        assert running.traces.left() == [], running.said
        assert [each for each in running.folders if not (each / store.RUN).exists()] in (
            [],
            [running.traces.folder],
        )
    assert running.claims_no_more_than_was_seen() >= (status == 0)
    assert ground.half_images() <= half
    if kill.way == "image":
        ground.forget_image(ground.folder / "envoy")
    assert neighbour.process.poll() is None, neighbour.said
    if beside:
        beside.proved()


def send(running: Running, kill: Kill) -> None:
    """Send the signal to the process alone, or to its whole group, as a terminal's Ctrl-C goes."""
    with contextlib.suppress(ProcessLookupError):
        if kill.target == "nox and its group":
            os.killpg(running.process.pid, kill.signal)
        else:
            running.process.send_signal(kill.signal)


def killed(ground: Ground, running: Running, kill: Kill) -> None:
    """See that the next run, or a sweep, tells and removes what a killed run left."""
    traces = running.traces
    if kill.target != "step":
        # The step outlives its nox, but only to clean up.
        traces.await_gone(lambda left: not left, INTERRUPTED_WITHIN_S)
        return
    if kill.engine == "process":  # the kernel ends its processes; what Go builds goes on
        traces.await_gone(lambda left: all(each.startswith(OUTLIVES) for each in left), 10)
    left = traces.settled() if kill.engine == "docker" else traces.left()
    print(f"left by {kill.name}: {left}")
    if kill.number // 3 % 2:
        program = [f"--envoy={ground.folder / 'envoy'}"] if kill.way == "image" else []
        after = ground.start(
            f"next-{kill.name}", kill.engine, *program, "--repeat=1", cache=traces.cache
        )
        after.proved()
        told = after.said.splitlines()
        assert after.traces.left() == []
    else:
        told = ground.sweep(traces.cache)
    assert traces.left() == []
    for name in left:
        if name.startswith(REPORTED):
            times = [line.partition(" of run ")[0] for line in told].count(f"swept: {name}")
            assert times == 1, (name, told)


def test_a_compiler_that_outlives_a_killed_run_is_ended_by_the_next_sweep(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOCACHE", str(tmp_path / "go"))  # so that there is much to compile
    cache = tmp_path / "cache"
    running = ground.start("compiles", "process", cache=cache)
    until(lambda: bool(list(cache.glob("work/go-build-*/go-build*/b*"))))
    running.process.kill()
    assert running.end() == -signal.SIGKILL
    left = running.traces.left()
    assert [each for each in left if each.startswith("process")], left
    told = ground.sweep(cache)
    assert running.traces.left() == []
    assert [line for line in told if re.fullmatch(GO_ENDED, line)], told
    work = [f"swept: {each}" for each in left if each.startswith("work folder ")]
    assert len(work) == 5  # source, git, fixed, modules, go-build
    assert {*work} <= {*told}


def test_a_live_neighbour_keeps_all_that_it_has_and_the_cache_goes_only_after_it(
    ground: Ground, neighbour: Running
) -> None:
    """``nox -s clean`` beside a run, and once more when that has ended."""
    neighbour.traces.look()
    had = neighbour.traces.left()
    modules = sorted((ground.cache / "modules").iterdir())
    told = ground.clean()
    assert f"kept: the cache in {ground.cache}, which a live run is using" in told
    assert not [line for line in told if line.startswith(("swept: image", "could not"))]
    assert neighbour.traces.left() == had
    assert len(had) >= (5 if ground.client else 3)
    assert sorted((ground.cache / "modules").iterdir()) == modules
    neighbour.process.send_signal(signal.SIGINT)
    neighbour.proved()
    assert neighbour.traces.left() == []
    told = ground.clean(DOCKER_HOST="unix:///nowhere.sock")
    assert "swept: 2 of modules in the cache" in told
    assert not (ground.cache / "modules").exists()
    mute = "kept: whatever Docker has: no Docker daemon answers at unix:///"
    assert any(line.startswith(mute) for line in told)


@pytest.mark.docker
def test_both_variants_by_both_engines_at_once_are_all_proven(
    start: Start, report: Report, tmp_path: Path
) -> None:
    with contextlib.closing(server.connect()):
        pass
    sessions = {
        engine: [
            start(variant, tmp_path / engine / variant, f"--engine={engine}", "--gateway=envoy")
            for variant in Variant
        ]
        for engine in ("process", "docker")
    }
    for engine, (baseline, fixed) in sessions.items():
        assert baseline.wait() == 0, baseline.stderr
        assert fixed.wait() == 0, fixed.stderr
        status, comparison, _ = report(tmp_path / engine, baseline, fixed)
        assert (status, comparison["verdict"]) == (0, "proven")
        assert comparison["engine"] == engine
