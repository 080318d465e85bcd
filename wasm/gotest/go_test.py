"""One ``go test`` command, run so that nothing of what it shows is lost, and read as it runs.

The one place that starts ``go test``: a Wasm guest makes the test program's output non-blocking,
and without :mod:`wasm.gotest.exec_wrapper` another set of tests is read each time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wasm.foundation import subprocesses
from wasm.gotest import exec_wrapper
from wasm.gotest.test_events import Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wasm.golang.toolchain import Toolchain
    from wasm.gotest.test_events import Suite


@dataclass(frozen=True, kw_only=True)
class GoTest:
    """What is asked of ``go test``.

    Attributes:
        packages: As Go takes them, such as ``./...``.
        timeout: For each package, as Go takes it.
        module: What WASM_FILE_PATH names.
        flags: Further ones.
        modfile: Another go.mod; None: the folder's own.
    """

    packages: tuple[str, ...]
    timeout: str
    module: str
    flags: tuple[str, ...] = ()
    modfile: Path | None = None

    def recorded(self) -> list[str]:
        """Return the command as it is recorded: no other machine has the folders of ours."""
        return ["go", *self._flags(), *self._ours().values(), *self.packages]

    def argv(self, program: str) -> list[str]:
        """Return the command as it is run."""
        return [program, *self._flags(), *self._ours(), *self.packages]

    def _flags(self) -> list[str]:
        return ["test", "-json", "-count=1", f"-timeout={self.timeout}", *self.flags]

    def _ours(self) -> dict[str, str]:
        """Flags that name files of ours -> how they are recorded."""
        ours = {exec_wrapper.as_exec(): f"-exec=python {Path(exec_wrapper.__file__).name}"}
        if self.modfile:
            ours[f"-modfile={self.modfile}"] = f"-modfile={self.modfile.name}"
        return ours


@dataclass(kw_only=True)
class Running:
    """A command that is being run: what has been read of it, and since when."""

    reading: Reading = field(default_factory=Reading)
    _start: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self._start


def run(
    go: Toolchain,
    plugin: Path,
    asked: GoTest,
    declared: Mapping[str, Sequence[str]],
    running: Running,
) -> Suite:
    """Run it to its end and sum up; failing tests are no error.

    Args:
        go: What runs it.
        plugin: Where.
        asked: What.
        declared: The tests that have to run, by package (see ``Reading.suite``).
        running: What is filled meanwhile; for who looks on, and for the details afterwards.
    """
    env = go.environment | {"WASM_FILE_PATH": asked.module}
    with subprocesses.streaming(asked.argv(go.program), cwd=plugin, env=env) as (output, ending):
        for line in output:
            running.reading.take(line)
    return running.reading.suite(asked.recorded(), ending.status, running.seconds, declared)
