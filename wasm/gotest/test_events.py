"""What one ``go test`` command showed, read from its events (``go test -json``).

Go's exit status alone proves little: ``-run Nope``, a TestMain that runs nothing, and a package
whose Wasm-mode tests were all skipped for want of a module end with 0 (golang 18853). So what ran
is counted, and held against what the files declare.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_SHOWN_TESTS = 10
_SHOWN_LINES = 40
_TIMED_OUT = "panic: test timed out after "


class Event(msgspec.Struct, frozen=True, rename="pascal"):
    """One line of ``go test -json`` (`go doc test2json`)."""

    action: str = ""
    package: str = ""
    import_path: str = ""
    test: str = ""
    output: str = ""
    failed_build: str = ""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What one ``go test`` command showed.

    Attributes:
        command: As it was run, in the plugin's folder; files of ours without their folders.
        status: Go's own exit status.
        passed: How many tests passed, subtests included.
        failed: ``package.Test`` of those that failed.
        skipped: Likewise of those skipped.
        skipped_in_wasm: Those of them that were to test the module.
        missing: What should have run to its end and did not: ``package.Test`` of what is declared
            or was begun, and packages of which nothing ran, or nothing but skipped tests.
        output: The lines of what failed.
        seconds: How long it took.
    """

    command: list[str]
    status: int
    passed: int
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    skipped_in_wasm: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    output: str = ""
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """The command without its flags."""
        return f"go test {self.command[-1]}"

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
        if self.missing:
            return f"{len(self.missing)} did not run that should have, first {self.missing[0]}"
        return ""

    @property
    def timed_out(self) -> bool:
        """Whether Go ended it for the time it took, which says nothing of what was under test."""
        return any(line.startswith(_TIMED_OUT) for line in self.output.splitlines())

    @property
    def summary(self) -> str:
        """What ran, in a line."""
        missing = f"{len(self.missing)} missing, " if self.missing else ""
        return (
            f"{self.name}: {self.passed} passed, {len(self.failed)} failed, {missing}"
            f"{len(self.skipped)} skipped in {self.seconds:.1f} s"
        )


Key = tuple[str, str]
"""A package and a test in it; no test for the package itself, nothing for Go's own messages."""

_CRASH = ("panic: ", "fatal error: ", "SIGQUIT: ")
"""What Go's runtime starts a line with that is its last word; a test's own lines are indented."""


class Reading:
    """The events of one command, read one by one."""

    def __init__(self) -> None:
        self.passed = 0
        self._begun: dict[Key, None] = {}
        self._actions: dict[Key, str] = {}
        self._uncompiled: set[str] = set()
        self._outputs: dict[Key, list[str]] = defaultdict(list)

    def take(self, line: bytes) -> None:
        """Take one line in; what is no event is Go's own message."""
        try:
            event = msgspec.json.decode(line, type=Event)
        except msgspec.DecodeError:
            self._outputs["", ""].append(line.decode("utf-8", "replace"))
            return
        key = (event.package or event.import_path, event.test)
        if event.output:
            self._outputs[key].append(event.output)
        if event.action == "run":
            self._begun[key] = None
        if event.failed_build:
            self._uncompiled.add(event.package)
        if event.action in {"pass", "fail", "skip", "build-fail"}:
            self._actions[key] = event.action
            self.passed += event.action == "pass" and event.test != ""

    def log(self) -> Iterator[str]:
        """Give all that was written, a package's together and a test's together in it."""
        for package in dict.fromkeys(package for package, _ in self._outputs):
            for (name, _), parts in self._outputs.items():
                if name == package:
                    yield from parts

    @property
    def tests(self) -> dict[Key, str]:
        """How each test ended that did: ``pass``, ``fail`` or ``skip``."""
        return {key: action for key, action in self._actions.items() if key[1]}

    def broken(self) -> dict[str, str]:
        """Return the packages that failed by more than failing tests, each with why, in a clause.

        What such a package shows of its tests says nothing about what they test: it did not
        compile, or its program crashed, ran out of time or was ended by a TestMain.
        """
        failed = [package for (package, test), action in self._actions.items() if action == "fail"]
        reasons = {package: self._broken_by(package) for package in dict.fromkeys(failed)}
        return {package: reason for package, reason in reasons.items() if reason}

    def _broken_by(self, package: str) -> str:
        if package in self._uncompiled:
            return "did not compile"
        written = [
            text for key, parts in self._outputs.items() if key[0] == package for text in parts
        ]
        for line in "".join(written).splitlines():
            if line.startswith(_CRASH):
                return f"ended in `{line}`"
        unended = [key for key in self._unended() if key[0] == package]
        if unended:
            return f"ended in the middle of {unended[-1][1]}"
        tests = [action for key, action in self.tests.items() if key[0] == package]
        return "" if "fail" in tests else "failed, and no test of it did"

    def _unended(self) -> list[Key]:
        return [key for key in self._begun if key not in self._actions]

    def suite(
        self,
        command: list[str],
        status: int,
        seconds: float,
        declared: Mapping[str, Collection[str]],
    ) -> Suite:
        """Sum up when the command has ended.

        Args:
            command: As it was run.
            status: Its exit status.
            seconds: How long it took.
            declared: The tests that had to run, by their package; a package that is given
                without any has to have run some.
        """
        tests = self.tests
        skipped = [key for key, action in tests.items() if action == "skip"]
        return Suite(
            command=command,
            status=status,
            passed=sum(action == "pass" for action in tests.values()),
            failed=[_named(key) for key, action in tests.items() if action == "fail"],
            skipped=[_named(key) for key in skipped],
            skipped_in_wasm=[_named(key) for key in skipped if self._is_of_the_module(key)],
            missing=list(_missing(tests, declared, self._begun)),
            output=self._output() if status or "fail" in tests.values() else "",
            seconds=round(seconds, 3),
        )

    def _is_of_the_module(self, key: Key) -> bool:
        """Whether a test that was skipped would have run the module: by its name or its reason."""
        reason = "".join(self._outputs[key]).lower()
        return "wasm" in key[1].lower().split("/") or "wasm" in reason

    def _output(self) -> str:
        """Give Go's own messages, then each failing test's lines, the last of them.

        A test that began and never ended is where its program crashed or ran out of time.
        """
        failing = [key for key, action in self._actions.items() if action in {"fail", "build-fail"}]
        failing += self._unended()
        # What failed because of something in it has nothing to add.
        tests = [key for key in failing if key[1] and not _holds_another(key, failing)]
        packages = {package for package, _ in tests}
        others = [key for key in failing if not key[1] and key[0] not in packages]
        shown = [("", ""), *others, *tests[:_SHOWN_TESTS]]
        lines = [line for key in shown for line in _last_words(self._outputs.get(key, ()))]
        if len(tests) > _SHOWN_TESTS:
            lines.append(f"... and {len(tests) - _SHOWN_TESTS} more")
        return "\n".join(lines)


def _named(key: Key) -> str:
    return ".".join(key)


def _missing(
    ended: Mapping[Key, str], declared: Mapping[str, Collection[str]], begun: Iterable[Key]
) -> Iterator[str]:
    ran = {package for (package, _), action in ended.items() if action != "skip"}
    yield from (package for package in declared if package not in ran)
    names = ((package, name) for package, tests in declared.items() for name in tests)
    for key in dict.fromkeys([*names, *begun]):
        if key[0] in ran and key not in ended:
            yield _named(key)


def _holds_another(key: Key, failing: Collection[Key]) -> bool:
    package, test = key
    return any(other[0] == package and other[1].startswith(f"{test}/") for other in failing)


def _last_words(output: Iterable[str]) -> list[str]:
    """Return the lines that say why: the last ones, or those from a crash on."""
    lines = [line for line in "".join(output).splitlines() if not line.startswith("=== ")]
    for number, line in enumerate(lines):
        if line.startswith(_CRASH):
            return lines[number:][:_SHOWN_LINES]
    return lines[-_SHOWN_LINES:]
