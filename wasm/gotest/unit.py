"""The plugin's own Go tests, run on a variant's tree against the very module under proof."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wasm.foundation import cache
from wasm.foundation.errors import BuildError
from wasm.golang import go_vet, golist, toolchain
from wasm.golang.toolchain import Toolchain
from wasm.gotest import fast_sdk, go_test
from wasm.gotest.fast_sdk import FastSdk, Speed
from wasm.gotest.go_test import GoTest, Running
from wasm.gotest.test_events import Suite
from wasm.module import build
from wasm.records import Module, Variant
from wasm.source import variant_tree
from wasm.source.variant_tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wasm.source.variant_tree import Request

# ./... of ai-proxy takes 14 min of one core plainly, half a minute on the fast SDK (seen). Go's
# own limit of 10 min is too short for the one; a hang need not cost an hour with the other.
_TIMEOUT_PLAIN = "60m"
_TIMEOUT_FAST = "15m"
_PROGRESS_S = 10.0
_PROVIDER = "./provider"


@dataclass(frozen=True, kw_only=True)
class UnitRun:
    """``unit.json``: the Go results of one variant.

    Attributes:
        commit: Of the source that the tests ran on.
        files_sha256: ``files_sha256`` of that source: of every file that the tests could see in it.
        baseline_files_sha256: The baseline's, whose tests and vet findings this was held against.
        environment: The settings of Go that were pinned; WASM_FILE_PATH named the module.
        fast_sdk: What was done to the SDK for the sake of speed; None: it was used as it is.
        plain_because: Why it was used as it is.
        vet: What ``go vet`` found that the baseline does not have.
        vet_of_baseline: What it finds on the baseline already, left as it is.
    """

    variant: Variant
    module_sha256: str
    commit: str
    files_sha256: str
    baseline_files_sha256: str
    go_version: str
    environment: dict[str, str] = field(default_factory=dict)
    fast_sdk: FastSdk | None = None
    plain_because: str = ""
    vet: list[str]
    vet_of_baseline: list[str]
    suites: list[Suite]


def run(
    variant: Variant,
    request: Request,
    say: Callable[[str], object],
    keep: Callable[[str], object] = lambda _: None,
    *,
    plain: bool = False,
) -> UnitRun:
    """Run ``go vet``, ``go test ./provider`` and ``go test ./...`` on a variant.

    Args:
        variant: Which.
        request: Where it comes from.
        say: Takes each line of progress.
        keep: Takes everything that the tests wrote.
        plain: Use the SDK as it is, however long that takes.

    Raises:
        SourceError: Its tree could not be taken out.
        BuildError: Its module does not build, or Go could not be run.
    """
    with cache.scratch("go-test") as scratch:
        with variant_tree.taken_out(Variant.BASELINE, request) as tree:
            baseline, baseline_files = _read(_go(tree, scratch), tree), tree.source.files_sha256
        with variant_tree.taken_out(variant, request) as tree:
            go = _go(tree, scratch)
            module = build.built_from(tree, variant)
            say(f"{variant}: module {module.sha256[:12]}")
            here = _read(go, tree)
            known = len(here.vet & baseline.vet)
            say(f"{variant}: go vet: {len(here.vet)} findings, {known} of them the baseline's")
            if gone := list(_gone(here, baseline)):
                told = f"{len(gone)} tests of the baseline are not declared here, first {gone[0]}"
                say(f"{variant}: {told}")
            speed = _speed(go, tree, scratch, plain=plain)
            say(f"{variant}: {_told(speed)}")
            suites = []
            for packages, declared in _to_run(here, baseline).items():
                suites.append(_suite(_Job(go, tree, module, speed), packages, declared, say, keep))
    return UnitRun(
        variant=variant,
        module_sha256=module.sha256,
        commit=module.source.commit,
        files_sha256=module.source.files_sha256,
        baseline_files_sha256=baseline_files,
        go_version=go.version,
        environment=go.pinned,
        fast_sdk=speed.sdk,
        plain_because=speed.plain_because,
        vet=sorted(here.vet - baseline.vet),
        vet_of_baseline=sorted(baseline.vet),
        suites=suites,
    )


def refuse_failures(unit: UnitRun, log: str = "") -> None:
    """Raise what keeps the results from being a success.

    Args:
        unit: The results.
        log: How the file is named that holds all that the tests wrote, if there is one.

    Raises:
        BuildError: With the command, what was wrong, and the failing tests' own lines.
    """
    if unit.vet:
        raise BuildError(
            f"go vet finds {len(unit.vet)} things on the {unit.variant} variant that the baseline "
            "does not have; expected none; see the lines above",
            detail="\n".join(unit.vet),
        )
    for suite in unit.suites:
        if suite.problem:
            there = [name for name in ("the lines above" * bool(suite.output), log) if name]
            see = f"; see {' and '.join(there)}" if there else ""
            raise BuildError(
                f"{suite.name} on the {unit.variant} variant: {suite.problem}; expected every "
                f"test to run and pass{see}",
                detail=suite.output,
            )


@dataclass(frozen=True)
class _Facts:
    """What can be known of a tree before its tests are run.

    Attributes:
        vet: What ``go vet`` finds.
        declared: The tests that are declared, by package; packages without any are left out.
        provider: The package in the folder of that name, if it has tests.
    """

    vet: frozenset[str]
    declared: dict[str, tuple[str, ...]]
    provider: str | None


@dataclass(frozen=True)
class _Job:
    """What every suite of a run has in common."""

    go: Toolchain
    tree: Tree
    module: Module
    speed: Speed


def _go(tree: Tree, scratch: Path) -> Toolchain:
    """Return a tree's Go, with a folder for the test programs that an interrupt leaves."""
    go = toolchain.of(tree.source)
    return replace(go, environment=go.environment | {"GOTMPDIR": str(scratch)})


def _read(go: Toolchain, tree: Tree) -> _Facts:
    found = [(package, package.tests) for package in golist.packages(go, tree.plugin)]
    declared = {package.import_path: tests for package, tests in found if tests}
    provider = [
        package.import_path
        for package, tests in found
        if tests and Path(package.dir).resolve() == (tree.plugin / _PROVIDER).resolve()
    ]
    return _Facts(go_vet.vet(go, tree.plugin), declared, provider[0] if provider else None)


def _gone(here: _Facts, baseline: _Facts) -> Iterator[str]:
    """Name the tests of the baseline that this variant has not: removed, renamed, or not built."""
    for package, tests in baseline.declared.items():
        for test in tests:
            if test not in here.declared.get(package, ()):
                yield f"{package}.{test}"


def _to_run(here: _Facts, baseline: _Facts) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return what is given to ``go test``, and the tests that then have to run.

    A package that has tests on the baseline has to have run some, whichever.
    """
    gone = {package: () for package in baseline.declared if package not in here.declared}
    suites = {"./...": {**here.declared, **gone}}
    if here.provider is not None:
        suites = {_PROVIDER: {here.provider: here.declared[here.provider]}, **suites}
    return suites


def _speed(go: Toolchain, tree: Tree, scratch: Path, *, plain: bool) -> Speed:
    if plain:
        return Speed(plain_because="--plain was given")
    return fast_sdk.prepare(go, tree.plugin, scratch)


def _told(speed: Speed) -> str:
    if speed.sdk is None:
        return f"tests run on the SDK as it is: {speed.plain_because}"
    return f"tests share what they compile: {speed.sdk.file} of {speed.sdk.module} was changed"


def _suite(
    job: _Job,
    packages: str,
    declared: Mapping[str, Sequence[str]],
    say: Callable[[str], object],
    keep: Callable[[str], object],
) -> Suite:
    asked = GoTest(
        packages=(packages,),
        timeout=_TIMEOUT_FAST if job.speed.sdk else _TIMEOUT_PLAIN,
        module=job.module.path,
        modfile=job.speed.modfile,
    )
    running = Running()

    def tell() -> None:
        passed = running.reading.passed
        say(f"go test {packages}: {passed} passed after {running.seconds:.0f} s")

    with _told_every(_PROGRESS_S, tell):
        suite = go_test.run(job.go, job.tree.plugin, asked, declared, running)
    say(suite.summary)
    keep(f"# {' '.join(suite.command)}\n")
    for text in running.reading.log():
        keep(text)
    return suite


@contextlib.contextmanager
def _told_every(seconds: float, tell: Callable[[], None]) -> Iterator[None]:
    """Tell something again and again while something else is waited for."""
    done = threading.Event()

    def telling() -> None:
        while not done.wait(seconds):
            tell()

    thread = threading.Thread(target=telling, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
