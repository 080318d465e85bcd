"""The fix's regression tests: Go of ours that is laid over a plugin's tree, run there, compared.

The same files fit every tree that the fix fits. Those that call the helper with its new argument
compile only with the fix; the others need its behaviour alone, and show the defect on a baseline.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wasm import cache, command
from wasm.errors import BuildError, SourceError
from wasm.suite import Event, Reading

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from wasm.toolchain import Toolchain

FOLDER = Path(__file__).parent / "go" / "regression"
SELECTION = "^TestRetryApiIdentity"
"""What ``go test -run`` takes for all of them."""

_NATIVE_ALONE = "-skip=^TestRetryApiIdentity$/^module$"
_NEEDS_THE_FIX = "_signature_test.go"
_PROVIDER = "provider"
# A test program compiles the module once, 3 s; on a busy machine much slower.
_TIMEOUT = "10m"
_BASE_PATH = re.compile(r"a retry with providerBasePath: kept=(true|false) path=(\S+)")


@dataclass(frozen=True, kw_only=True)
class Showing:
    """What the tests showed on one tree. Names are ``TestX/sub``, ``provider.TestX/sub``.

    Attributes:
        command: As it was run, in the plugin's folder.
        status: Go's exit status.
        output: The lines of what failed.
        base_path: The paths of retries with a providerBasePath -> whether they kept it.
        seconds: How long it took, compiling included.
    """

    command: list[str]
    status: int
    passed: list[str]
    failed: list[str]
    skipped: list[str]
    output: str = ""
    base_path: dict[str, bool] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What the tests showed on a baseline and with the fix; of those that hold no others.

    Attributes:
        fail_to_pass: Failed on the baseline, pass with the fix: they show the defect.
        pass_to_pass: Pass on both: they show what the fix leaves as it was.
        only_with_the_fix: Pass with the fix, and do not compile without it.
    """

    fail_to_pass: list[str]
    pass_to_pass: list[str]
    only_with_the_fix: list[str]


def files(*, with_the_fix: bool) -> dict[str, bytes]:
    """Return the test files: path in the plugin's folder -> content."""
    paths = sorted(FOLDER.rglob("*_test.go"))
    return {
        path.relative_to(FOLDER).as_posix(): path.read_bytes()
        for path in paths
        if with_the_fix or not path.name.endswith(_NEEDS_THE_FIX)
    }


def lay_over(plugin: Path, *, with_the_fix: bool) -> dict[str, bytes]:
    """Write the test files into a plugin's tree; return them.

    Raises:
        SourceError: It has a file of that name already.
    """
    ours = files(with_the_fix=with_the_fix)
    for name, content in ours.items():
        path = plugin / name
        if path.exists() or path.is_symlink():
            raise SourceError(
                f"{name} is in the plugin's folder already; expected that name to be free for a "
                "regression test of the fix; name a --baseline-ref without it"
            )
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return ours


def run(go: Toolchain, plugin: Path, module: str | None) -> Showing:
    """Run the tests that were laid over a plugin's tree, natively and against its module.

    Args:
        go: What runs them.
        plugin: The plugin's folder.
        module: The path of the module that was built from it; None: natively alone.

    Raises:
        BuildError: They do not compile there.
    """
    argv = ["test", "-json", "-count=1", f"-timeout={_TIMEOUT}", f"-run={SELECTION}"]
    argv += [".", f"./{_PROVIDER}"] if module else [_NATIVE_ALONE, ".", f"./{_PROVIDER}"]
    actions: dict[str, str] = {}
    base_path: dict[str, bool] = {}
    reading = Reading()
    start = time.monotonic()
    with cache.scratch("go-test") as temporary:
        # Without the variable, some plugins' tests build a module before they run.
        named = {"WASM_FILE_PATH": module or os.devnull}
        env = go.environment | {"GOTMPDIR": str(temporary)} | named
        with command.streaming([go.program, *argv], cwd=plugin, env=env) as (output, ending):
            for line in output:
                reading.take(line)
                _take(line, actions, base_path)
    seconds = time.monotonic() - start
    shown = reading.suite(["go", *argv], ending.status, seconds, {}).output
    if ending.status != 0 and "fail" not in actions.values():
        raise BuildError(
            f"the regression tests could not be run (go test ended with status {ending.status}); "
            "expected them to compile in the plugin's tree; see the lines above",
            detail=shown,
        )

    def of(wanted: str) -> list[str]:
        return sorted(test for test, action in actions.items() if action == wanted)

    return Showing(
        command=["go", *argv],
        status=ending.status,
        passed=of("pass"),
        failed=of("fail"),
        skipped=of("skip"),
        output=shown,
        base_path=base_path,
        seconds=round(seconds, 3),
    )


def _take(line: bytes, actions: dict[str, str], base_path: dict[str, bool]) -> None:
    try:
        event = msgspec.json.decode(line, type=Event)
    except msgspec.DecodeError:
        return  # Go's own message; shown if nothing ran
    if event.test and event.action in {"pass", "fail", "skip"}:
        in_provider = event.package.endswith(f"/{_PROVIDER}")
        actions[f"{_PROVIDER}." * in_provider + event.test] = event.action
    if found := _BASE_PATH.search(event.output):
        base_path[found[2]] = found[1] == "true"


def compare(baseline: Showing, fixed: Showing) -> Compared:
    """Hold what the tests showed on a baseline against what they show with the fix.

    Raises:
        SourceError: They do not show the defect on this baseline.
        BuildError: With the fix, not all of them ran and passed.
    """
    if fixed.failed or fixed.status != 0:
        first = ", ".join(fixed.failed[:3]) or "none by name"
        raise BuildError(
            f"{len(fixed.failed)} regression tests fail with the fix, first {first}; expected "
            "all to pass; see the lines above",
            detail=fixed.output,
        )
    both = {*baseline.passed, *baseline.failed, *baseline.skipped}
    unrun = [*fixed.skipped, *baseline.skipped, *sorted(both - {*fixed.passed})]
    if unrun:
        raise BuildError(
            f"{len(unrun)} regression tests did not run on both variants, first {unrun[0]}; "
            "expected each to run: a test that is skipped proves nothing"
        )
    if not baseline.failed:
        raise SourceError(
            f"all {len(baseline.passed)} regression tests pass on the baseline; expected some to "
            "fail on the defect of #4396; name a --baseline-ref that has it"
        )
    return Compared(
        fail_to_pass=leaves(baseline.failed, both),
        pass_to_pass=leaves(baseline.passed, both),
        only_with_the_fix=leaves({*fixed.passed} - both, fixed.passed),
    )


def leaves(tests: Iterable[str], among: Collection[str]) -> list[str]:
    """Return the tests that hold no others: the others say nothing of their own."""
    holding = {test.rpartition("/")[0] for test in among}
    while more := {test.rpartition("/")[0] for test in holding} - holding:
        holding |= more
    return sorted({*tests} - holding)
