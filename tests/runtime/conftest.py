"""The matrix as pytest sees it: options, the testbed for the session, one test per cell."""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from containers import engines, envoy, sweep
from containers.options import TESTBED_OPTIONS
from containers.records import Listener
from containers.testbed import Plan
from sessions.evidence.record import folders, store
from sessions.evidence.record.recorder import Recorder
from sessions.matrix import case, cells, credentials
from sessions.matrix.options import MATRIX_OPTIONS
from sessions.matrix.progress import Shown
from sessions.matrix.verdict import ProtocolMismatch
from wasm.foundation import paths, terminal
from wasm.foundation.errors import GatewayError, ProofError
from wasm.module.build import build
from wasm.options import SOURCE_OPTIONS
from wasm.records import Variant
from wasm.source.variant_tree import Request

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from containers.testbed import Testbed

_NO_COUNTS = -2
RECORDER = pytest.StashKey[Recorder]()
SHOWN = pytest.StashKey[Shown]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gateway-proof", "the matrix of a runtime proof")
    group.addoption("--variant", choices=list(Variant), help="which side of the proof to run")
    group.addoption("--run-dir", metavar="DIR", help="takes the evidence of this run")
    for flag, settings in {**SOURCE_OPTIONS, **TESTBED_OPTIONS, **MATRIX_OPTIONS}.items():
        group.addoption(flag, **settings)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Read the cases; without any there is no session to begin, and pytest says nothing of one."""
    options = config.option
    if not options.variant or not options.run_dir:
        raise pytest.UsageError(
            "--variant and --run-dir are needed; `nox -s runtime-baseline` gives both"
        )
    try:
        with paths.errors_in_a_sentence():
            cases = case.load(options.cases, options.case)
    except ProofError as error:
        terminal.say(terminal.last_words(error))
        terminal.annotate(error.sentence)
        return error.exit_status
    config.stash[RECORDER] = Recorder(
        Path(options.run_dir), Variant(options.variant), cases, options.repeat
    )
    folders.hold(Path(options.run_dir))
    config.stash[SHOWN] = Shown(len(cells.plan(cases, options.repeat)))
    # The cells are counted and named below, so pytest need not.
    options.verbose = min(options.verbose, _NO_COUNTS)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """From now on pytest tells of an interrupt at its end; before, there is nothing to clean up."""
    terminal.interrupts_clean_up()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    recorder = metafunc.config.stash[RECORDER]
    by_name = {each.name: each for each in recorder.cases}
    rows = []
    for cell in cells.plan(recorder.cases, recorder.repeats):
        must_fail = by_name[cell.case].expected_failures(recorder.variant, cell.mode)
        marks = [pytest.mark.xfail(raises=ProtocolMismatch, strict=True)] if must_fail else []
        rows.append(pytest.param(by_name[cell.case], cell, id=cell.id, marks=marks))
    metafunc.parametrize(("case", "cell"), rows)


@pytest.fixture(scope="session")
def recorder(pytestconfig: pytest.Config) -> Recorder:
    return pytestconfig.stash[RECORDER]


@pytest.fixture(scope="session")
def shown(pytestconfig: pytest.Config) -> Shown:
    return pytestconfig.stash[SHOWN]


@pytest.fixture(scope="session")
def testbed(pytestconfig: pytest.Config, recorder: Recorder) -> Iterator[Testbed]:
    opened = False
    shown = pytestconfig.stash[SHOWN]
    try:
        with (
            paths.errors_in_a_sentence(),
            _opened(pytestconfig.option, recorder, shown) as testbed,
        ):
            opened = True
            yield testbed
            shown.end()
            if pytestconfig.option.keep:
                _kept_open(testbed)
        _refuse_leftovers(testbed)
    except ProofError as error:
        recorder.failure = error.sentence  # which is the last thing that is said
        for line in terminal.explanation(error):
            terminal.say(credentials.masked(line))
        if not opened:
            # Of cells that were not run pytest would tell the same in its own words, first.
            pytestconfig.pluginmanager.unregister(name="terminalreporter")
            pytest.exit("there is no testbed", returncode=error.exit_status)


@contextlib.contextmanager
def _opened(options: argparse.Namespace, recorder: Recorder, shown: Shown) -> Iterator[Testbed]:
    """Build the module and open its testbed, taking note of both."""
    choice = engines.choose(options.engine, options.gateway, options.gateway_image)
    for line in (*choice.reasons, *sweep.of_dead_runs(choice.engine)):
        shown.say(str(line))
    if options.envoy is not None:
        envoy.program(options.envoy)  # before a build that may take half a minute
    with shown.stage(f"{recorder.variant}: building the module"):
        module = build(recorder.variant, Request.of_options(options))
    for line in module.summary:
        shown.say(line)
    recorder.built(module)
    plan = Plan(
        module=module,
        listeners=tuple(
            Listener(name=each.name, plugin_config=each.plugin) for each in recorder.cases
        ),
        folder=recorder.folder,
        gateway=choice.gateway,
        gateway_image=options.gateway_image,
        envoy=options.envoy,
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(store.disk_errors(recorder.folder))
        with shown.stage("gateway: starting"):
            testbed = stack.enter_context(engines.opened(choice, plan))
        shown.say(f"gateway: LIVE after {testbed.timings.gateway_ready_s:.1f} s")
        recorder.opened(testbed)
        yield testbed


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(
    report: pytest.TestReport, config: pytest.Config
) -> tuple[str, str, str] | None:
    """Let pytest tell nothing of a cell that was judged; what broke off a test it does tell."""
    results = config.stash[RECORDER].results
    judged = report.when == "call" and results and f"[{results[-1].cell.id}]" in report.nodeid
    return ("", "", "") if judged or report.passed else None


def _kept_open(testbed: Testbed) -> None:
    """Leave the testbed open for a look at it, until an interrupt."""
    with contextlib.suppress(KeyboardInterrupt):
        print(f"\nkept open until Ctrl-C; upstream's control port {testbed.control_url}")
        for name, url in testbed.gateway_urls.items():
            print(f"  {name}: {url}")
        sys.stdout.flush()
        signal.pause()


def _refuse_leftovers(testbed: Testbed) -> None:
    if not testbed.cleanup.complete:
        left = ", ".join(testbed.cleanup.leftovers) or "nobody has looked"
        raise GatewayError(
            f"the testbed was closed and is not gone: {left}; expected no process and no open port "
            "of it; end these by hand, then run it again"
        )


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Iterator[None]:
    """Write the run when all other reports are written, then its sums, last of all."""
    terminal.interrupts_come_too_late()
    session.config.stash[SHOWN].end()
    recorder = session.config.stash[RECORDER]
    if exitstatus == pytest.ExitCode.INTERRUPTED and not recorder.failure:
        recorder.failure = (
            "interrupted before the matrix was done; expected it to run to its end; run it again"
        )
        session.exitstatus = terminal.INTERRUPTED
    try:
        with store.disk_errors(recorder.folder):
            yield
            if session.exitstatus != pytest.ExitCode.OK and not recorder.summary:
                recorder.failure = (
                    f"pytest ended with status {int(session.exitstatus)} though every cell was as "
                    "declared: something outside the cells failed; expected no error; see the "
                    "lines above"
                )
            if recorder.finish() is not None:
                store.seal(recorder.folder)
        if session.exitstatus == pytest.ExitCode.OK and recorder.summary:
            # Every test is green, and yet the run is not what it claims: nothing had to fail, say.
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    except ProofError as error:
        # A run that is not whole is none: without its record nothing can be made of it.
        (recorder.folder / store.RUN).unlink(missing_ok=True)
        recorder.failure = error.sentence
        session.exitstatus = error.exit_status


def pytest_unconfigure(config: pytest.Config) -> None:
    """End with the fix that was applied, and which cells were not as declared."""
    recorder = config.stash.get(RECORDER, None)
    if recorder is not None and recorder.fix:
        terminal.say(f"{recorder.variant}: fix: {recorder.fix}")
    if recorder is not None and recorder.summary:
        terminal.annotate(recorder.summary)
        terminal.say(f"error: {recorder.summary}")
