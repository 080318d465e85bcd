"""What a sweep removes, in which order, and what it says; by a Docker client of a test's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import requests
from docker.errors import APIError, NotFound

from containers import __main__ as command
from containers import sweep
from containers.docker import server
from containers.docker.images import IMAGE_LABEL
from containers.docker.parts import OWNER_LABEL, RUN_LABEL
from containers.records import EngineKind
from wasm.foundation import cache, owners
from wasm.foundation.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

OURS = owners.here()
GONE = str(replace(OURS, started=OURS.started - 9))
ELSEWHERE = str(replace(OURS, place=replace(OURS.place, machine="00000000"), started=1.0))


def lines(outcomes: Iterable[sweep.Outcome]) -> tuple[str, ...]:
    return tuple(map(str, outcomes))


def refuses() -> None:
    raise GatewayError("no Docker daemon answers at /a (No such file); expected one; start it")


def refusal(status: int, explanation: str) -> APIError:
    response = requests.Response()
    response.status_code = status
    return APIError(f"{status} Error", response=response, explanation=explanation)


@dataclass
class Thing:
    """A container, network or volume, as docker's client has them in its lists.

    Attributes:
        trouble: What its removal ends in, if not well.
        looks: How many looks it is still there for, once its removal is under way.
        volume: What goes with it, as a container's volume does.
    """

    docker: Docker
    kind: str
    name: str
    owner: str
    trouble: Exception | None = None
    looks: int = 2
    volume: Thing | None = None

    @property
    def attrs(self) -> dict[str, Any]:
        """What the daemon says of it."""
        found: dict[str, Any] = {"Labels": {OWNER_LABEL: self.owner, RUN_LABEL: "run-1"}}
        return found | ({"Names": [f"/{self.name}"]} if self.kind == "container" else {})

    def remove(self, **how: bool) -> None:
        """Log how it is removed, or refuse."""
        if self.trouble:
            raise self.trouble
        self.docker.log.append(f"{self.kind} {self.name} {how}")
        self.go()

    def go(self) -> None:
        """Be no more."""
        for each in (self, self.volume):
            if each in self.docker.things:
                self.docker.things.remove(each)

    def reload(self) -> None:
        """Be there for some looks, and then no more."""
        self.looks -= 1
        if self.looks < 0:
            self.docker.log.append(f"{self.kind} {self.name} removed by another")
            self.go()
            raise NotFound("no such thing")


class Images:
    """The images of a daemon: name -> the error that its removal ends in."""

    def __init__(self, log: Any) -> None:
        self.log = log
        self.troubles: dict[str, Exception | None] = {}

    def list(self, filters: dict[str, str]) -> Sequence[Any]:
        """List those with our label."""
        assert filters == {"label": IMAGE_LABEL}
        return [
            SimpleNamespace(id=f"id of {name}", tags=[name] if ":" in name else [], short_id=name)
            for name in self.troubles
        ]

    def remove(self, image: str) -> None:
        """Log an image's removal, or refuse."""
        trouble = self.troubles[image.removeprefix("id of ")]
        if trouble:
            raise trouble
        self.log.append(f"image {image}")


class Docker:
    """A client that lists what it was given, and logs what is removed."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.things: list[Thing] = []
        self.images = Images(self.log)
        self.closed = False
        self.after_list: Callable[[], object] = lambda: None
        for kind in ("container", "network", "volume"):
            setattr(self, f"{kind}s", SimpleNamespace(list=self._lists(kind)))

    def add(self, kind: str, name: str, owner: str, trouble: Exception | None = None) -> Thing:
        """Add a thing of an owner's."""
        self.things.append(Thing(self, kind, name, owner, trouble))
        return self.things[-1]

    def close(self) -> None:
        """Take note."""
        self.closed = True

    def _lists(self, kind: str) -> Any:
        def listed(filters: dict[str, str], **options: bool) -> list[Thing]:
            assert filters == {"label": OWNER_LABEL}
            # Stopped ones too; and one that is removed between two looks is not lost.
            all_of_them = {"all": True, "sparse": True}
            assert options == (all_of_them if kind == "container" else {})
            found = [each for each in self.things if each.kind == kind]
            if kind == "volume":  # listed last
                create, self.after_list = self.after_list, lambda: None
                create()
            return found

        return listed


@pytest.fixture
def client() -> Any:
    return Docker()


@pytest.fixture
def answers(client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The daemon that answers, beside a cache that nobody uses."""
    daemon: Any = server.Daemon(client, "1.0", "linux/amd64")
    monkeypatch.setattr("containers.docker.server.connect", lambda: daemon)
    monkeypatch.setenv("GATEWAY_PROOF_CACHE", str(tmp_path / "cache"))
    return client


@pytest.fixture
def abandoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that a dead run worked in."""
    monkeypatch.setenv("GATEWAY_PROOF_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "work" / f"go-build-{GONE}-x_y"
    folder.mkdir(parents=True)
    return folder


def test_only_an_owner_that_is_known_to_be_gone_loses_anything(client: Any) -> None:
    for kind in ("container", "network", "volume"):
        client.add(kind, "live", str(OURS))
        client.add(kind, "elsewhere", ELSEWHERE)
        client.add(kind, "nobody's", "")
        client.add(kind, "odd", "somebody")
        client.add(kind, "dead", GONE)
    assert lines(sweep.containers_and_networks(client)) == (
        "swept: container dead of run run-1",
        "swept: network dead of run run-1",
        "swept: volume dead of run run-1",
    )


def test_containers_go_first_with_their_volumes_then_what_they_were_attached_to(
    client: Any,
) -> None:
    for kind in ("volume", "network", "container"):
        client.add(kind, "one", GONE)
        client.add(kind, "other", GONE)
    lines(sweep.containers_and_networks(client))
    how = {"container": {"force": True, "v": True}, "network": {}, "volume": {"force": True}}
    assert client.log == [f"{kind} {name} {how[kind]}" for kind in how for name in ("one", "other")]


def test_what_cannot_be_removed_is_told_and_the_rest_goes(client: Any) -> None:
    client.add("container", "stubborn", GONE, refusal(500, "device or resource busy"))
    client.add("container", "other", GONE)
    client.add("network", "inside", GONE, refusal(403, "it has active endpoints"))
    assert lines(sweep.containers_and_networks(client)) == (
        "swept: container other of run run-1",
        "could not be swept: container stubborn of run run-1: device or resource busy",
        "could not be swept: network inside of run run-1: it has active endpoints",
    )


UNDER_WAY = refusal(409, "removal of container 1f is already in progress")
REMOVED = NotFound("no such container")


@pytest.mark.parametrize("trouble", [UNDER_WAY, REMOVED], ids=["under way", "done"])
def test_what_a_killed_run_has_asked_docker_to_remove_is_reported(
    client: Any, trouble: Exception
) -> None:
    """Its request goes on without it, and nobody else would report what that removes."""
    client.add("container", "relay", GONE, trouble).looks = 0 if trouble is REMOVED else 2
    client.add("network", "inside", GONE)
    client.add("network", "outside", GONE)
    assert lines(sweep.containers_and_networks(client)) == (
        "swept: container relay of run run-1",
        "swept: network inside of run run-1",
        "swept: network outside of run run-1",
    )
    if trouble is UNDER_WAY:  # the networks can go only after it
        assert client.log[0] == "container relay removed by another"


def test_a_volume_that_goes_with_its_container_is_reported_once(client: Any) -> None:
    volume = client.add("volume", "1f2e", GONE)
    client.add("container", "gateway", GONE).volume = volume
    volume.trouble = NotFound("no such volume")
    assert lines(sweep.containers_and_networks(client)) == (
        "swept: container gateway of run run-1",
        "swept: volume 1f2e of run run-1",
    )


def test_what_appears_while_the_rest_is_removed_goes_too(client: Any) -> None:
    """A killed run had asked for it: Docker creates it, and attaches it to the network."""
    network = client.add("network", "inside", GONE, refusal(403, "it has active endpoints"))
    client.add("volume", "1f2e", GONE)

    def create() -> None:
        client.add("container", "relay", GONE)
        client.after_list = lambda: setattr(network, "trouble", None)  # as its container goes

    client.after_list = create
    assert lines(sweep.containers_and_networks(client)) == (
        "swept: volume 1f2e of run run-1",
        "swept: container relay of run run-1",
        "swept: network inside of run run-1",
    )


def test_what_was_removed_is_reported_even_if_the_daemon_goes_away_then(answers: Docker) -> None:
    answers.add("container", "one", GONE)
    answers.add("container", "other", GONE, requests.ConnectionError("refused"))
    swept = sweep.of_dead_runs(EngineKind.DOCKER)
    assert str(next(swept)) == "swept: container one of run run-1"
    with pytest.raises(GatewayError, match="does not answer any more"):
        next(swept)
    assert answers.closed


def test_work_that_was_removed_is_reported_though_no_daemon_answers(
    abandoned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("containers.docker.server.connect", refuses)
    swept = sweep.of_dead_runs(EngineKind.DOCKER)
    assert str(next(swept)) == f"swept: work folder {abandoned.name}"
    with pytest.raises(GatewayError):
        next(swept)


SWEEPS = """\
import sys
from containers import sweep
from containers.records import EngineKind
sys.stdin.readline()
for outcome in sweep.of_dead_runs(EngineKind.PROCESS):
    print(outcome, flush=True)
"""


def test_of_sweeps_at_once_exactly_one_reports_a_thing(abandoned: Path) -> None:
    folders = [abandoned.with_name(f"{abandoned.name}{number}") for number in range(40)]
    for folder in folders:
        folder.mkdir()
    sweeps = [
        subprocess.Popen(
            [sys.executable, "-c", SWEEPS],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for each in sweeps:
        assert each.stdin
        each.stdin.write("\n")
        each.stdin.flush()
    told = [line for each in sweeps for line in each.communicate()[0].splitlines()]
    assert [each.returncode for each in sweeps] == [0, 0, 0]
    assert sorted(told) == sorted(
        f"swept: work folder {folder.name}" for folder in (abandoned, *folders)
    )


def test_a_sweep_that_is_stopped_does_not_hold_up_the_others_for_ever(
    abandoned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("containers.sweep._ALONE_WITHIN_S", 0.2)
    stopped = sweep.of_dead_runs(EngineKind.PROCESS)
    next(stopped)
    abandoned.mkdir()
    assert lines(sweep.of_dead_runs(EngineKind.PROCESS)) == (
        f"swept: work folder {abandoned.name}",
    )


def test_a_removal_that_never_ends_is_told(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("containers.sweep._REMOVED_WITHIN_S", 0.0)
    client.add("container", "one", GONE, refusal(409, "removal is already in progress"))
    assert lines(sweep.containers_and_networks(client)) == (
        "could not be swept: container one of run run-1: removal is already in progress",
    )


def test_images_go_when_no_run_lives_and_those_that_a_container_uses_are_kept(client: Any) -> None:
    client.add("network", "of a dead run", GONE)
    in_use = refusal(409, "conflict: container 1f is using it")
    client.images.troubles = {"envoy:1": None, "upstream:1": in_use, "1f2e": None, "gone:1": None}
    # A `clean` that was killed had asked for this.
    client.images.troubles["gone:1"] = NotFound("no such image")
    assert lines(sweep.images(client)) == (
        "swept: image envoy:1",
        "kept: image upstream:1: conflict: container 1f is using it",
        "swept: image 1f2e",
        "swept: image gone:1",
    )
    assert client.log == ["image id of envoy:1", "image id of 1f2e"]


@pytest.mark.parametrize("owner", [str(OURS), ELSEWHERE], ids=["ours", "elsewhere"])
@pytest.mark.parametrize("kind", ["container", "network"])
def test_no_image_goes_while_a_run_lives_that_may_use_it(
    client: Any, kind: str, owner: str
) -> None:
    client.add(kind, "live", owner)
    client.images.troubles = {"envoy:1": None}
    assert lines(sweep.images(client)) == ("kept: image envoy:1, which run run-1 may be using",)
    assert client.log == []


def test_a_run_sweeps_no_image(answers: Docker) -> None:
    answers.add("container", "dead", GONE)
    answers.images.troubles = {"envoy:1": None}
    assert lines(sweep.of_dead_runs(EngineKind.DOCKER)) == ("swept: container dead of run run-1",)
    assert answers.closed


def test_a_process_run_does_not_ask_docker(
    abandoned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("containers.docker.server.connect", lambda: pytest.fail("it was asked"))
    assert lines(sweep.of_dead_runs(EngineKind.PROCESS)) == (
        f"swept: work folder {abandoned.name}",
    )
    assert not abandoned.exists()


def test_the_folder_of_a_live_process_stays(abandoned: Path) -> None:
    with cache.scratch("go-build") as live:
        lines(sweep.of_dead_runs(EngineKind.PROCESS))
        assert live.exists()
    assert not abandoned.exists()


@pytest.fixture
def sleepers(abandoned: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A process that works for the dead run, one that works for us, and one that looks on."""
    with cache.scratch("go-build") as live:
        processes = [
            subprocess.Popen(["sleep", "300"], cwd=cwd, env={**os.environ, **extra})
            for cwd, extra in (
                ("/", {"GOTMPDIR": str(abandoned)}),
                ("/", {"GOTMPDIR": str(live)}),
                (abandoned, {}),
            )
        ]
        yield processes
        for each in processes:
            each.kill()
            each.wait()


def test_what_a_dead_run_started_is_ended_before_its_folder_goes(
    abandoned: Path, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    theirs, ours, looking = sleepers
    assert lines(sweep.of_dead_runs(EngineKind.PROCESS)) == (
        f"swept: process {theirs.pid} (sleep), which a dead run had started",
        f"swept: work folder {abandoned.name}",
    )
    assert theirs.wait(0) == -signal.SIGKILL
    assert (ours.poll(), looking.poll()) == (None, None)


def test_a_process_that_does_not_end_is_not_reported_as_swept(
    abandoned: Path, sleepers: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("containers.sweep._ENDED_WITHIN_S", 0.05)
    monkeypatch.setattr("psutil.Process.kill", lambda _: None)
    name = f"process {sleepers[0].pid} (sleep), which a dead run had started"
    assert lines(sweep.work()) == (
        f"could not be swept: {name}",
        f"swept: work folder {abandoned.name}",
    )


def test_what_is_started_while_the_rest_is_ended_is_ended_too(
    abandoned: Path, sleepers: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {**os.environ, "GOTMPDIR": str(abandoned)}
    kill = psutil.Process.kill

    def starts_another(process: psutil.Process) -> None:
        if process.pid == sleepers[0].pid:
            sleepers.append(subprocess.Popen(["sleep", "300"], env=environment))
        kill(process)

    monkeypatch.setattr("psutil.Process.kill", starts_another)
    told = lines(sweep.work())
    assert told == (
        *(
            f"swept: process {each.pid} (sleep), which a dead run had started"
            for each in (sleepers[0], sleepers[-1])
        ),
        f"swept: work folder {abandoned.name}",
    )
    assert sleepers[-1].wait(5) == -signal.SIGKILL


def test_clean_removes_images_and_cache_too(answers: Docker, abandoned: Path) -> None:
    answers.add("container", "dead", GONE)
    answers.images.troubles = {"envoy:1": None}
    entry = cache.root() / "modules" / ("0f" * 32)
    entry.mkdir(parents=True)
    assert lines(sweep.everything_unused()) == (
        f"swept: work folder {abandoned.name}",
        "swept: container dead of run run-1",
        "swept: image envoy:1",
        "swept: 1 of modules in the cache",
    )
    assert not entry.exists()


def test_clean_without_a_daemon_says_so_and_does_the_rest(
    abandoned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("containers.docker.server.connect", refuses)
    assert lines(sweep.everything_unused()) == (
        f"swept: work folder {abandoned.name}",
        "kept: whatever Docker has: no Docker daemon answers at /a (No such file)",
    )


def test_the_command_says_that_nothing_was_left(
    answers: Docker, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main(["sweep"])
    assert capsys.readouterr().out == "nothing of ours was left\n"
    assert answers.closed


def test_the_command_fails_in_a_sentence_when_something_stays(
    answers: Docker, capsys: pytest.CaptureFixture[str]
) -> None:
    answers.add("container", "stubborn", GONE, refusal(500, "device or resource busy"))
    with pytest.raises(GatewayError) as caught:
        command.main(["clean"])
    stuck = "container stubborn of run run-1: device or resource busy"
    assert capsys.readouterr().out == f"could not be swept: {stuck}\n"
    assert caught.value.sentence == (
        f"1 of what dead runs left could not be swept, first {stuck}; expected it to go; remove it "
        "by hand, or try again later"
    )


def test_a_sweep_is_a_command_of_its_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "containers", "sweep"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "GATEWAY_PROOF_CACHE": str(tmp_path),
            "DOCKER_HOST": "unix:///nowhere/docker.sock",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "nothing of ours was left\n")
    assert list(tmp_path.iterdir()) == []
