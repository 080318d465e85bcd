"""The fix's regression tests: Go of ours that is laid over a plugin's tree, run there, compared.

The same files fit every tree that the fix fits. Those that call the helper with its new argument
compile only with the fix; the others need its behaviour alone, and show the defect on a baseline.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wasm.foundation import cache
from wasm.foundation.errors import BuildError, SourceError
from wasm.golang import golist
from wasm.gotest import go_test
from wasm.gotest.go_test import GoTest, Running

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from wasm.golang.toolchain import Toolchain
    from wasm.gotest.test_events import Reading, Suite

FOLDER = Path(__file__).parents[1] / "go" / "regression"
SELECTION = "^TestRetryApiIdentity"
"""What ``go test -run`` takes for all of them."""

_OF_THE_MODULE = "TestRetryApiIdentity/module"
_NATIVE_ALONE = "-skip=^TestRetryApiIdentity$/^module$"
_NEEDS_THE_FIX = "_signature_test.go"
_PROVIDER = "provider"
FOLDERS = (".", f"./{_PROVIDER}")
"""The folders of a plugin in which there are some, as Go takes them."""

# What the defect does not touch: it makes everything a chat, and a health check is meant to be.
_CONTROL = re.compile("chat_?completions|HealthCheck", re.IGNORECASE)
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
        BuildError: Not each of them ran to its end: they do not compile there, or panic, or hang.
    """
    folders = _folders(go, plugin)
    asked = GoTest(
        packages=FOLDERS,
        timeout=_TIMEOUT,
        # Without the variable, some plugins' tests build a module before they run.
        module=module or os.devnull,
        flags=(f"-run={SELECTION}",) if module else (f"-run={SELECTION}", _NATIVE_ALONE),
    )
    running = Running()
    with cache.scratch("go-test") as temporary:
        ours = replace(go, environment=go.environment | {"GOTMPDIR": str(temporary)})
        declared = {package.import_path: package.tests for package in folders}
        suite = go_test.run(ours, plugin, asked, declared, running)
    _refuse_what_did_not_run(suite, running.reading)
    prefixes = {folders[1].import_path: f"{_PROVIDER}."}

    def of(wanted: str) -> list[str]:
        ended = running.reading.tests.items()
        return sorted(prefixes.get(key[0], "") + key[1] for key, how in ended if how == wanted)

    told = _BASE_PATH.findall("".join(running.reading.log()))
    return Showing(
        command=suite.command,
        status=suite.status,
        passed=of("pass"),
        failed=of("fail"),
        skipped=of("skip"),
        output=suite.output,
        base_path={path: kept == "true" for kept, path in told},
        seconds=suite.seconds,
    )


@dataclass(frozen=True)
class _Folder:
    """A package that has regression tests."""

    import_path: str
    tests: tuple[str, ...]


def _folders(go: Toolchain, plugin: Path) -> list[_Folder]:
    """Return what Go makes of the folders in which the tests were laid."""
    listed = {Path(package.dir).resolve(): package for package in golist.packages(go, plugin)}
    found = []
    for folder in FOLDERS:
        package = listed.get((plugin / folder).resolve())
        tests = package.tests if package else ()
        chosen = tuple(test for test in tests if re.match(SELECTION, test))
        if package is None or not chosen:
            raise BuildError(
                f"Go finds no regression test in {folder} of the plugin's folder; expected those "
                "that were laid there; see what `go list ./...` says in it"
            )
        found.append(_Folder(package.import_path, chosen))
    return found


def _refuse_what_did_not_run(suite: Suite, reading: Reading) -> None:
    """Refuse a run of which some tests say nothing: a compiler's error is no failing test."""
    broken = [f"{package} {reason}" for package, reason in reading.broken().items()]
    missing = [f"{name} did not run to its end" for name in suite.missing]
    others = ["no test failed"] if suite.status and not suite.failed else []
    reasons = [*broken, *missing, *others]
    if reasons:
        raise BuildError(
            f"the regression tests could not be run (go test ended with status {suite.status}): "
            f"{reasons[0]}; expected each to end in pass or fail, since what is not run shows "
            "nothing; see the lines above",
            detail=suite.output,
        )


def compare(baseline: Showing, fixed: Showing) -> Compared:
    """Hold what the tests showed on a baseline against what they show with the fix.

    Raises:
        SourceError: They do not show the defect on this baseline, or more than the defect.
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
    there = {_of_go(test) for test in both}
    not_there = [test for test in fixed.passed if _of_go(test) in there and test not in both]
    unrun = [
        *(*fixed.skipped, *baseline.skipped),
        *sorted(both - {*fixed.passed}),
        *not_there,
    ]
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
    _refuse_failing_controls(baseline, both)
    return Compared(
        fail_to_pass=leaves(baseline.failed, both),
        pass_to_pass=leaves(baseline.passed, both),
        only_with_the_fix=leaves({*fixed.passed} - both, fixed.passed),
    )


def _refuse_failing_controls(baseline: Showing, tests: Collection[str]) -> None:
    """Refuse a baseline that fails for another reason than the defect."""
    controls = [test for test in leaves(tests, tests) if _CONTROL.search(test)]
    failed = [test for test in controls if test in baseline.failed]
    if failed or not controls:
        first = failed[0] if failed else "there is none"
        raise SourceError(
            f"{len(failed)} of {len(controls)} regression tests of what the defect leaves alone "
            f"fail on the baseline, first {first}; expected Chat Completions and the health check "
            "to be right there; name a --baseline-ref that has no more than the defect of #4396",
            detail=baseline.output,
        )


def is_of_the_module(test: str) -> bool:
    """Whether a test is one that is left out where there is no module."""
    return test == _OF_THE_MODULE or test.startswith(f"{_OF_THE_MODULE}/")


def _of_go(test: str) -> str:
    """Return the Go test that a subtest is part of."""
    return test.partition("/")[0]


def leaves(tests: Iterable[str], among: Collection[str]) -> list[str]:
    """Return the tests that hold no others: the others say nothing of their own."""
    holding = {test.rpartition("/")[0] for test in among}
    while more := {test.rpartition("/")[0] for test in holding} - holding:
        holding |= more
    return sorted({*tests} - holding)
