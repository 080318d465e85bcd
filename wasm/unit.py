"""The plugin's own Go tests, run on a variant's tree against the very module under proof.

Go's exit status alone proves little: ``-run Nope`` and a package whose Wasm-mode tests were all
skipped for want of a module both end with 0 (golang 18853). So the events of ``go test -json`` are
read, and what ran is counted.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from wasm import build, cache, command, source, toolchain
from wasm.errors import BuildError
from wasm.records import Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wasm.records import Module
    from wasm.source import Request, Tree
    from wasm.toolchain import Toolchain

# go test's own limit is 10 min; ./... of ai-proxy takes 14 min of one core (seen).
_TIMEOUT = "60m"
_PROGRESS_S = 10.0
_SHOWN_LINES = 40
_POSITION = re.compile(r":\d+(:\d+)?:")


class Event(msgspec.Struct, frozen=True, rename="pascal"):
    """One line of ``go test -json`` (`go doc test2json`)."""

    action: str = ""
    package: str = ""
    import_path: str = ""
    test: str = ""
    output: str = ""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What one ``go test`` command showed.

    Attributes:
        command: As it was run, in the plugin's folder.
        status: Go's own exit status.
        passed: How many tests passed, subtests included.
        failed: ``package.Test`` of those that failed.
        skipped: Likewise of those skipped.
        skipped_in_wasm: Those of them that were to test the module.
        output: The lines of what failed.
        seconds: How long it took.
    """

    command: list[str]
    status: int
    passed: int
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    skipped_in_wasm: list[str] = field(default_factory=list)
    output: str = ""
    seconds: float = 0.0

    @property
    def problem(self) -> str:
        """Why this is no success, in a clause; empty when it is one."""
        if self.failed:
            names = ", ".join(self.failed[:3])
            return f"{len(self.failed)} tests failed, first {names}"
        if self.status != 0:
            return f"it ended with status {self.status}"
        if self.skipped_in_wasm:
            return (
                f"{len(self.skipped_in_wasm)} tests of the module were skipped, first "
                f"{self.skipped_in_wasm[0]}"
            )
        if self.passed == 0:
            return "no test ran"
        return ""


@dataclass(frozen=True, kw_only=True)
class UnitRun:
    """``unit.json``: the Go results of one variant.

    Attributes:
        vet: What ``go vet`` found that the baseline does not have.
        vet_of_baseline: What it finds on the baseline already, left as it is.
    """

    variant: Variant
    module_sha256: str
    go_version: str
    vet: list[str]
    vet_of_baseline: list[str]
    suites: list[Suite]


def run(variant: Variant, request: Request, say: Callable[[str], None]) -> UnitRun:
    """Run ``go vet``, ``go test ./provider`` and ``go test ./...`` on a variant.

    Raises:
        SourceError: Its tree could not be taken out.
        BuildError: Its module does not build, or Go could not be run.
    """
    known = _vet_of_baseline(request)
    with source.taken_out(variant, request) as tree, _go() as go:
        module = build.built_from(tree, variant)
        say(f"{variant}: module {module.sha256[:12]}")
        found = _vet(go, tree)
        say(
            f"{variant}: go vet: {len(found)} findings, {len(found & known)} of them the baseline's"
        )
        suites = [
            _suite(go, tree, module, packages, say)
            for packages in ("./provider", "./...")
            if packages == "./..." or (tree.plugin / "provider").is_dir()
        ]
    return UnitRun(
        variant=variant,
        module_sha256=module.sha256,
        go_version=go.version,
        vet=sorted(found - known),
        vet_of_baseline=sorted(known),
        suites=suites,
    )


def refuse_failures(unit: UnitRun) -> None:
    """Raise what keeps the results from being a success.

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
            raise BuildError(
                f"{' '.join(suite.command)} on the {unit.variant} variant: {suite.problem}; "
                "expected every test to run and pass; see the lines above",
                detail=suite.output,
            )


@contextlib.contextmanager
def _go() -> Iterator[Toolchain]:
    """Give Go, and a folder of ours for its test programs: an interrupted one leaves them."""
    go = toolchain.locate()
    with cache.scratch("go-test") as temporary:
        yield replace(go, environment=go.environment | {"GOTMPDIR": str(temporary)})


def _vet_of_baseline(request: Request) -> frozenset[str]:
    with source.taken_out(Variant.BASELINE, request) as tree, _go() as go:
        return _vet(go, tree)


def _vet(go: Toolchain, tree: Tree) -> frozenset[str]:
    """Return go vet's findings, without their line numbers: those move with every change."""
    done = command.run([go.program, "vet", "./..."], cwd=tree.plugin, env=go.environment)
    lines = (line.strip() for line in done.stderr.splitlines())
    found = frozenset(_POSITION.sub(":", line) for line in lines if line and line[0] != "#")
    if not done.succeeded and not found:
        raise BuildError(f"go vet could not be run: {done.last_line}; expected it to read the tree")
    return found


def _suite(
    go: Toolchain, tree: Tree, module: Module, packages: str, say: Callable[[str], None]
) -> Suite:
    argv = ["test", "-json", "-count=1", f"-timeout={_TIMEOUT}", packages]
    start = time.monotonic()
    said = start
    counted = 0
    lines: list[bytes] = []
    env = go.environment | {"WASM_FILE_PATH": module.path}
    with command.streaming([go.program, *argv], cwd=tree.plugin, env=env) as (output, ending):
        for line in output:
            lines.append(line)
            counted += b'"Action":"pass"' in line and b'"Test":' in line
            if time.monotonic() - said > _PROGRESS_S:
                said = time.monotonic()
                say(f"go test {packages}: {counted} passed after {said - start:.0f} s")
    suite = read_events(["go", *argv], ending.status, lines, time.monotonic() - start)
    say(
        f"go test {packages}: {suite.passed} passed, {len(suite.failed)} failed, "
        f"{len(suite.skipped)} skipped in {suite.seconds:.1f} s"
    )
    return suite


def read_events(command: list[str], status: int, lines: Iterable[bytes], seconds: float) -> Suite:
    """Read the events of ``go test -json``; what is no event is Go's own message."""
    actions: dict[tuple[str, str], str] = {}
    outputs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in lines:
        try:
            event = msgspec.json.decode(line, type=Event)
        except msgspec.DecodeError:
            outputs["", ""].append(line.decode("utf-8", "replace"))
            continue
        key = (event.package or event.import_path, event.test)
        if event.output:
            outputs[key].append(event.output)
        if event.action in {"pass", "fail", "skip", "build-fail"}:
            actions[key] = event.action
    tests = {key: action for key, action in actions.items() if key[1]}
    skipped = [key for key, action in tests.items() if action == "skip"]
    failing = [key for key, action in actions.items() if action in {"fail", "build-fail"}]
    text = "".join(part for key in [("", ""), *failing] for part in outputs.get(key, ()))
    return Suite(
        command=command,
        status=status,
        passed=sum(action == "pass" for action in tests.values()),
        failed=[f"{package}.{test}" for package, test in failing if test],
        skipped=[f"{package}.{test}" for package, test in skipped],
        skipped_in_wasm=[
            f"{package}.{test}"
            for package, test in skipped
            if "wasm" in test.lower().split("/")
            or "wasm" in "".join(outputs[package, test]).lower()
        ],
        output="\n".join(text.splitlines()[-_SHOWN_LINES:]) if failing or status else "",
        seconds=round(seconds, 3),
    )
