"""Runtime sessions as a user's command line starts them, and testbeds of both modules."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from containers.docker import images, server
from containers.process import engine as process_engine
from containers.records import Listener
from containers.testbed import Plan
from sessions.matrix import case
from tests.integration.running import ENDED_WITHIN_S, MATRIX, PLUGIN, PROJECT, Session, git
from wasm.foundation.errors import GatewayError
from wasm.golang import toolchain
from wasm.module.build import build
from wasm.records import Variant
from wasm.source import variant_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from containers.docker.server import Daemon
    from containers.testbed import Testbed
    from wasm.records import Module

    FakeGateway = Callable[..., str]


@pytest.fixture(scope="session")
def start() -> Iterator[Callable[..., Session]]:
    """Give a function that starts a session; those still running at the end are killed."""
    sessions: list[Session] = []

    def started(
        variant: str,
        folder: Path,
        *options: str,
        env: dict[str, str] | None = None,
        inside: tuple[str, ...] = (),
    ) -> Session:
        folder.mkdir(parents=True, exist_ok=True)
        argv = [f"--variant={variant}", f"--run-dir={folder}", f"--junit-xml={folder}/junit.xml"]
        # The same on every machine, whether a Docker daemon answers there or not.
        argv += [] if any(each.startswith("--engine") for each in options) else ["--engine=process"]
        clean = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
        process = subprocess.Popen(
            [*inside, sys.executable, *MATRIX, *argv, *options],
            cwd=PROJECT,
            env=clean | (env or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        sessions.append(Session(folder, process))
        return sessions[-1]

    yield started
    for session in sessions:
        if session.process.poll() is None:
            session.process.kill()
            session.process.communicate()


@pytest.fixture(scope="session")
def report() -> Callable[[Path, Session, Session], tuple[int, Any, str]]:
    """Give a function that compares two sessions: exit status, comparison.json, last words.

    A pair that is refused has no comparison: None.
    """

    def compared(evidence: Path, baseline: Session, fixed: Session) -> tuple[int, Any, str]:
        argv = ["-m", "sessions.evidence", "report", f"--evidence={evidence}"]
        argv += [f"--baseline={baseline.folder}", f"--fixed={fixed.folder}"]
        done = subprocess.run(
            [sys.executable, *argv],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=False,
            timeout=ENDED_WITHIN_S,
        )
        written = evidence / "latest" / "bundle" / "comparison.json"
        words = done.stderr.strip().splitlines()
        comparison = json.loads(written.read_bytes()) if written.exists() else None
        return done.returncode, comparison, words[-1] if words else ""

    return compared


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A committed copy of the reference plugin, in a repository of its own."""
    folder = tmp_path / "repository"
    shutil.copytree(PROJECT / PLUGIN, folder / PLUGIN)
    git(tmp_path, "init", "--quiet", str(folder))
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=the baseline")
    return folder


@pytest.fixture(scope="session")
def modules() -> dict[Variant, Module]:
    """Both modules of the reference plugin."""
    return {variant: build(variant, variant_tree.Request()) for variant in Variant}


@pytest.fixture(scope="session")
def cases() -> dict[str, case.Case]:
    """The bundled cases, by name."""
    return {each.name: each for each in case.load()}


@pytest.fixture(scope="session")
def plan(modules: dict[Variant, Module], cases: dict[str, case.Case]) -> Callable[..., Plan]:
    """Give a function that plans a testbed of the baseline for all bundled cases."""
    listeners = tuple(
        Listener(name=each.name, plugin_config=each.plugin) for each in cases.values()
    )

    def planned(folder: Path, **other: Any) -> Plan:
        settings: dict[str, Any] = {"module": modules[Variant.BASELINE], "listeners": listeners}
        return Plan(folder=folder, **settings | other)

    return planned


@pytest.fixture(scope="session")
def testbed(
    plan: Callable[..., Plan], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Testbed]:
    """A testbed of the baseline, open for all tests that leave it as it is."""
    with process_engine.opened(plan(tmp_path_factory.mktemp("testbed"))) as testbed:
        yield testbed


@pytest.fixture(scope="session")
def both(
    start: Callable[..., Session], modules: object, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Session, Session]:
    """The default matrix on the baseline and on the fixed module, both at once."""
    assert modules, "built before, so that this is the matrix alone"
    folder = tmp_path_factory.mktemp("both")
    sessions = start("baseline", folder / "baseline"), start("fixed", folder / "fixed")
    for session in sessions:
        session.wait()
    return sessions


# --- With Docker --------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def daemon() -> Iterator[Daemon]:
    """The Docker daemon; where none answers its tests are skipped, but never in CI."""
    try:
        found = server.connect()
    except GatewayError as error:
        if os.environ.get("CI"):
            pytest.fail(f"in CI these tests are never skipped: {error.sentence}", pytrace=False)
        pytest.skip(error.sentence)
    with contextlib.closing(found):
        yield found


@pytest.fixture(autouse=True)
def _daemon_where_marked(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("docker"):
        request.getfixturevalue("daemon")


@pytest.fixture(scope="session")
def fake_gateway(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeGateway]:
    """Give a function that makes a gateway image of a behaviour (see fake_gateway/main.go)."""
    program = tmp_path_factory.mktemp("fake-gateway") / "envoy"
    go = toolchain.locate()
    subprocess.run(
        [go.program, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s", "-o", program, "."],
        cwd=PROJECT / "tests" / "integration" / "fake_gateway",
        env=go.environment | {"CGO_ENABLED": "0"},
        check=True,
    )
    made: set[str] = set()

    def image(behaviour: str, platform: str | None = None, on: Daemon = daemon) -> str:
        files = {"usr/local/bin/envoy": program.read_bytes(), "behaviour": behaviour.encode()}
        name = images.assembled(
            on, "gateway-proof/fake-gateway", files, "/usr/local/bin/envoy", platform
        )
        if on is daemon:
            made.add(name)
        return name

    yield image
    for name in made:
        daemon.client.images.remove(name, force=True)


@pytest.fixture(scope="session")
def both_docker(
    start: Callable[..., Session], modules: object, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Session, Session]:
    """As ``both``, in containers."""
    assert modules
    folder = tmp_path_factory.mktemp("both-docker")
    options = ("--engine=docker", "--gateway=envoy")
    sessions = tuple(
        start(variant, folder / f"{folder.name}-{variant}", *options) for variant in Variant
    )
    for session in sessions:
        session.wait()
    return sessions[0], sessions[1]
