"""Runtime sessions as a user's command line starts them, and testbeds of both modules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from containers import process_engine
from containers.records import Listener
from containers.testbed import Plan
from sessions.matrix import case
from tests.integration.running import ENDED_WITHIN_S, MATRIX, PROJECT, Session
from wasm import source
from wasm.build import build
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from containers.testbed import Testbed
    from wasm.records import Module


@pytest.fixture(scope="session")
def start() -> Iterator[Callable[..., Session]]:
    """Give a function that starts a session; those still running at the end are killed."""
    sessions: list[Session] = []

    def started(
        variant: str, folder: Path, *options: str, env: dict[str, str] | None = None
    ) -> Session:
        folder.mkdir(parents=True, exist_ok=True)
        argv = [f"--variant={variant}", f"--run-dir={folder}", f"--junit-xml={folder}/junit.xml"]
        clean = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
        process = subprocess.Popen(
            [sys.executable, *MATRIX, *argv, *options],
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
def report() -> Callable[[Path, Session, Session], tuple[int, dict[str, Any], str]]:
    """Give a function that compares two sessions: exit status, comparison.json, last words."""

    def compared(
        evidence: Path, baseline: Session, fixed: Session
    ) -> tuple[int, dict[str, Any], str]:
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
        assert written.exists(), done.stderr
        return done.returncode, json.loads(written.read_bytes()), words[-1] if words else ""

    return compared


@pytest.fixture(scope="session")
def modules() -> dict[Variant, Module]:
    """Both modules of the reference plugin."""
    return {variant: build(variant, source.Request()) for variant in Variant}


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
