"""Recording a run while it happens, so that it is written whole however it ends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from containers.records import Cleanup, Timings
from sessions.evidence.record import inputs, machine, redact, store, traffic
from sessions.evidence.record.recorded import Recorded, shortcoming
from sessions.evidence.record.records import Counts, Run, exchanges_s, first_keys
from sessions.matrix import credentials
from sessions.matrix.cells import plan

if TYPE_CHECKING:
    from pathlib import Path

    from containers.testbed import Testbed
    from sessions.matrix.case import Case
    from sessions.matrix.records import Result
    from wasm.records import Module, Variant

_ASSERTION = ["nox", "-s", "report", "verify"]
_CLEANUP = ["nox", "-s", "clean"]


class Recorder:
    """Collects one variant's run.

    Args:
        folder: The run's folder; its name is the run's id.
        variant: Which side of the proof it is.
        cases: The cases that were planned.
        repeats: How often each is run in each mode.
    """

    def __init__(
        self, folder: Path, variant: Variant, cases: tuple[Case, ...], repeats: int
    ) -> None:
        self.folder = folder
        self.variant = variant
        self.cases = cases
        self.repeats = repeats
        self.results: list[Result] = []
        self._failure = ""
        self._module: Module | None = None
        self._testbed: Testbed | None = None
        self._started_at = _now()

    def built(self, module: Module) -> None:
        """Take note of the module under proof."""
        self._module = module

    def opened(self, testbed: Testbed) -> None:
        """Take note of the testbed that the matrix runs in."""
        self._testbed = testbed

    def add(self, result: Result) -> None:
        """Take a cell's result."""
        self.results.append(result)

    @property
    def failure(self) -> str:
        """What broke the run off, in a sentence, credentials masked: it is shown and published."""
        return self._failure

    @failure.setter
    def failure(self, sentence: str) -> None:
        self._failure = credentials.masked(sentence)

    @property
    def fix(self) -> str:
        """Where the fix of the module came from, and what is no part of it; empty without one."""
        fix = self._module.source.fix if self._module else None
        return fix.summary if fix else ""

    @property
    def summary(self) -> str:
        """Why the run is not what its variant must show, in a sentence; empty when it is."""
        planned = len(plan(self.cases, self.repeats))
        return self.failure or shortcoming(self.variant, self.results, planned)

    def finish(self) -> Run | None:
        """Write run.json, cells.jsonl and cleanup.json; None when there was not even a module.

        Credentials are masked first, wherever they stand, and fail the run; so does what gateway,
        mock and cells tell otherwise of the same requests.
        """
        testbed = self._testbed
        if self._module is None:
            return None
        module, masked = redact.module(self._module)
        self.folder.mkdir(parents=True, exist_ok=True)
        store.write_cells(self.folder, self.results)
        cleanup = testbed.cleanup if testbed else Cleanup()
        store.write_json(self.folder / store.CLEANUP, cleanup)
        store.write_patches(self.folder, module)
        masked += redact.files(self.folder)
        self._fail_for(masked)
        configuration = _configuration_digest(self.folder) if testbed else ""
        run = Run(
            id=self.folder.name,
            variant=self.variant,
            started_at=self._started_at,
            finished_at=_now(),
            command=machine.command(),
            session_command=machine.session_command(),
            assertion_command=_ASSERTION,
            cleanup_command=_CLEANUP,
            environment=machine.environment(),
            machine=machine.machine(module),
            module=module,
            testbed=testbed.facts if testbed else None,
            cases=self.cases,
            repeats=self.repeats,
            upstream_address=testbed.upstream_address if testbed else "",
            listeners=dict(testbed.gateway_urls) if testbed else {},
            inputs_sha256=inputs.digest(
                self.cases, self.repeats, testbed.facts if testbed else None, configuration
            ),
            configuration_sha256=configuration,
            counts=Counts.of(self.results),
            first_keys=first_keys(self.results),
            timings=testbed.timings if testbed else Timings(),
            exchanges_s=exchanges_s(self.results),
            failure=self.failure,
            files=store.digests(self.folder),
        )
        if testbed and not self.failure:
            recorded = Recorded(folder=self.folder, run=run, results=tuple(self.results))
            self.failure = traffic.unreconciled(recorded) if recorded.whole else ""
        run, masked = redact.record(msgspec.structs.replace(run, failure=self.failure))
        if masked:
            self._fail_for(masked)
            run = msgspec.structs.replace(run, failure=redact.texts(self.failure))
        store.write_json(self.folder / store.RUN, run)
        return run

    def _fail_for(self, masked: list[str]) -> None:
        if masked and not self.failure:
            self.failure = (
                f"what looks like a credential was found in {', '.join(masked)} and masked; "
                "expected dummies alone; take it out of the machine's or the plugin's settings, or "
                "out of your changes"
            )


def _configuration_digest(folder: Path) -> str:
    try:
        files = [(folder / name).read_bytes() for name in (store.ENVOY, store.LISTENERS)]
        return inputs.configuration_digest(*files)
    except (OSError, ValueError):
        return ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
