"""Recording a run while it happens, so that it is written whole however it ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from containers.records import Cleanup, Timings
from sessions.evidence import inputs, store, surroundings, traffic
from sessions.evidence.recorded import Recorded
from sessions.evidence.records import Counts, Run, first_keys
from sessions.matrix import credentials
from sessions.matrix.cells import plan
from wasm.records import Patch, Variant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from containers.testbed import Testbed
    from sessions.matrix.case import Case
    from sessions.matrix.records import Result
    from wasm.records import Module

_ASSERTION = ["nox", "-s", "report", "verify"]
_CLEANUP = ["nox", "-s", "clean"]
# Plugin, gateway and tools write these, so what they hold is not known before.
_WRITTEN_BY_OTHERS = ("logs/*", "junit.xml", "config/*.json", "config/*.txt", "config/plugins/*")


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
        """Write run.json, cells.jsonl and cleanup.json; None when there was not even a module.

        Credentials are masked first, wherever they stand, and fail the run; so does what gateway,
        mock and cells tell otherwise of the same requests.
        """
        testbed = self._testbed
        if self._module is None:
            return None
        module, masked = _publishable(self._module)
        self.folder.mkdir(parents=True, exist_ok=True)
        store.write_cells(self.folder, self.results)
        cleanup = testbed.cleanup if testbed else Cleanup()
        store.write_json(self.folder / store.CLEANUP, cleanup)
        store.write_patches(self.folder, module)
        masked += _masked_files(self.folder)
        self._fail_for(masked)
        configuration = _configuration_digest(self.folder) if testbed else ""
        run = Run(
            id=self.folder.name,
            variant=self.variant,
            started_at=self._started_at,
            finished_at=_now(),
            command=surroundings.command(),
            session_command=surroundings.session_command(),
            assertion_command=_ASSERTION,
            cleanup_command=_CLEANUP,
            environment=surroundings.environment(),
            machine=surroundings.machine(module),
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
            exchanges_s=sum(r.response.seconds for r in self.results if r.response),
            failure=self.failure,
            files=store.digests(self.folder),
        )
        if testbed and not self.failure:
            recorded = Recorded(folder=self.folder, run=run, results=tuple(self.results))
            self.failure = traffic.unreconciled(recorded) if recorded.whole else ""
        run, masked = _without_credentials(msgspec.structs.replace(run, failure=self.failure))
        if masked:
            self._fail_for(masked)
            run = msgspec.structs.replace(run, failure=credentials.masked(self.failure))
        store.write_json(self.folder / store.RUN, run)
        return run

    def _fail_for(self, masked: list[str]) -> None:
        if masked and not self.failure:
            self.failure = (
                f"what looks like a credential was found in {', '.join(masked)} and masked; "
                "expected dummies alone; take it out of the machine's or the plugin's settings, or "
                "out of your changes"
            )


def _publishable(module: Module) -> tuple[Module, list[str]]:
    """Return a module's record without credentials in what its author has not published yet.

    The fix and what stands around a change are what they are: masked, they would be another patch.
    """
    patch = module.source.uncommitted
    if patch is None:
        return module, []
    lines = patch.content.decode("latin-1").split("\n")
    shown = [credentials.masked(line) if line.startswith("+") else line for line in lines]
    if shown == lines:
        return module, []
    changed = Patch.of("\n".join(shown).encode("latin-1"))
    source = replace(module.source, uncommitted=changed)
    return replace(module, source=source), [store.UNCOMMITTED]


def _without_credentials(run: Run) -> tuple[Run, list[str]]:
    """Return a run's record with a mask for every credential in it; and its file, if any was."""
    # Its patches stay: they are bytes, and looked at apart.
    before = msgspec.to_builtins(run, builtin_types=(bytes,))
    after = _masked_texts(before)
    if after == before:
        return run, []
    return msgspec.convert(after, Run, builtin_types=(bytes,)), [store.RUN]


def _masked_texts(value: Any) -> Any:  # noqa: ANN401 - JSON's values
    if isinstance(value, str):
        return credentials.masked(value)
    if isinstance(value, dict):
        return {_masked_texts(key): _masked_texts(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_masked_texts(below) for below in value)
    return value


def _masked_files(folder: Path) -> Iterator[str]:
    """Mask credentials in what others wrote; give the name of each file that had some."""
    for pattern in _WRITTEN_BY_OTHERS:
        # Only files: what is read to its end must have one.
        for path in sorted(each for each in folder.glob(pattern) if each.is_file()):
            before = path.read_bytes().decode("latin-1")
            after = credentials.masked(before)
            if after != before:
                path.write_bytes(after.encode("latin-1"))
                yield path.relative_to(folder).as_posix()


def _configuration_digest(folder: Path) -> str:
    try:
        return inputs.configuration_digest((folder / store.ENVOY).read_bytes())
    except (OSError, ValueError):
        return ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
