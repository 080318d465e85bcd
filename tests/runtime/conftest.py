"""The matrix as pytest sees it: options, the testbed for the session, one test per cell."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from containers import process_engine
from containers.options import TESTBED_OPTIONS
from containers.records import Listener
from containers.testbed import Plan
from sessions.evidence import store
from sessions.evidence.recorder import Recorder
from sessions.matrix import case, cells
from sessions.matrix.options import MATRIX_OPTIONS
from sessions.matrix.verdict import ProtocolMismatch
from wasm import terminal
from wasm.errors import ProofError
from wasm.records import Module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from containers.testbed import Testbed


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gateway-proof", "the matrix of a runtime proof")
    group.addoption("--module", metavar="FILE", help="record of the module under proof")
    group.addoption("--run-dir", metavar="DIR", help="takes the evidence of this run")
    for flag, settings in {**TESTBED_OPTIONS, **MATRIX_OPTIONS}.items():
        group.addoption(flag, **settings)


RECORDER = pytest.StashKey[Recorder]()


def pytest_configure(config: pytest.Config) -> None:
    terminal.interrupts_clean_up()
    options = config.option
    if not options.module or not options.run_dir:
        raise pytest.UsageError(
            "--module and --run-dir are needed; run this through `nox -s runtime-baseline`"
        )
    try:
        cases = case.load(Path(options.cases) if options.cases else None, options.case)
        module = Module.load(Path(options.module))
    except ProofError as error:
        raise pytest.UsageError(error.sentence) from error
    config.stash[RECORDER] = Recorder(Path(options.run_dir), module, cases, options.repeat)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    recorder = metafunc.config.stash[RECORDER]
    by_name = {each.name: each for each in recorder.cases}
    planned = cells.plan(recorder.cases, recorder.repeats)
    variant = recorder.module.variant
    metafunc.parametrize(
        ("case", "cell"),
        [
            pytest.param(
                by_name[cell.case],
                cell,
                id=cell.id,
                marks=[pytest.mark.xfail(raises=ProtocolMismatch, strict=True)]
                if by_name[cell.case].expected_failures(variant, cell.mode)
                else [],
            )
            for cell in planned
        ],
    )


@pytest.fixture(scope="session")
def recorder(pytestconfig: pytest.Config) -> Recorder:
    return pytestconfig.stash[RECORDER]


@pytest.fixture(scope="session")
def testbed(pytestconfig: pytest.Config, recorder: Recorder) -> Iterator[Testbed]:
    plan = Plan(
        module=recorder.module,
        listeners=tuple(
            Listener(name=each.name, plugin_config=each.plugin) for each in recorder.cases
        ),
        folder=recorder.folder,
        envoy=pytestconfig.option.envoy,
    )
    try:
        with process_engine.opened(plan) as testbed:
            recorder.opened(testbed)
            yield testbed
    except ProofError as error:
        recorder.failure = error.sentence
        pytest.exit(f"{error.detail}\nerror: {error.sentence}".strip(), returncode=2)


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Write the run when all other reports are written, then its sums, last of all."""
    yield
    recorder = session.config.stash[RECORDER]
    if session.exitstatus == pytest.ExitCode.INTERRUPTED and not recorder.failure:
        recorder.failure = "interrupted"
    with contextlib.suppress(FileNotFoundError):
        recorder.finish()
    store.seal(recorder.folder)
