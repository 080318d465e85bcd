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
        command: As it was run, in the plugin's folder; files of ours without their folders.
        status: Go's own exit status.
        passed: How many tests passed, subtests included.
        failed: ``package.Test`` of those that failed.
        skipped: Likewise of those skipped.
        skipped_in_wasm: Those of them that were to test the module.
        missing: What should have run to its end and did not: ``package.Test`` of what is declared
            or was begun, and packages of which nothing ran.
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
    def summary(self) -> str:
        """What ran, in a line."""
        missing = f"{len(self.missing)} missing, " if self.missing else ""
        return (
            f"{self.name}: {self.passed} passed, {len(self.failed)} failed, {missing}"
            f"{len(self.skipped)} skipped in {self.seconds:.1f} s"
        )


_Key = tuple[str, str]
"""A package and a test in it; no test for the package itself, nothing for Go's own messages."""


class Reading:
    """The events of one command, read one by one."""

    def __init__(self) -> None:
        self.passed = 0
        self._begun: dict[_Key, None] = {}
        self._actions: dict[_Key, str] = {}
        self._outputs: dict[_Key, list[str]] = defaultdict(list)

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
        if event.action in {"pass", "fail", "skip", "build-fail"}:
            self._actions[key] = event.action
            self.passed += event.action == "pass" and event.test != ""

    def log(self) -> Iterator[str]:
        """Give all that was written, a package's together and a test's together in it."""
        for package in dict.fromkeys(package for package, _ in self._outputs):
            for (name, _), parts in self._outputs.items():
                if name == package:
                    yield from parts

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
        tests = {key: action for key, action in self._actions.items() if key[1]}
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

    def _is_of_the_module(self, key: _Key) -> bool:
        """Whether a test that was skipped would have run the module: by its name or its reason."""
        reason = "".join(self._outputs[key]).lower()
        return "wasm" in key[1].lower().split("/") or "wasm" in reason

    def _output(self) -> str:
        """Give Go's own messages, then each failing test's lines, the last of them."""
        failing = [key for key, action in self._actions.items() if action in {"fail", "build-fail"}]
        # What failed because of something in it has nothing to add.
        tests = [key for key in failing if key[1] and not _holds_another(key, failing)]
        packages = {package for package, _ in tests}
        others = [key for key in failing if not key[1] and key[0] not in packages]
        shown = [("", ""), *others, *tests[:_SHOWN_TESTS]]
        lines = [line for key in shown for line in _last_words(self._outputs.get(key, ()))]
        if len(tests) > _SHOWN_TESTS:
            lines.append(f"... and {len(tests) - _SHOWN_TESTS} more")
        return "\n".join(lines)


def read_events(command: list[str], status: int, lines: Iterable[bytes], seconds: float) -> Suite:
    """Sum up a command that has ended, of which no test in particular had to run."""
    reading = Reading()
    for line in lines:
        reading.take(line)
    return reading.suite(command, status, seconds, {})


def _named(key: _Key) -> str:
    return ".".join(key)


def _missing(
    ended: Collection[_Key], declared: Mapping[str, Collection[str]], begun: Iterable[_Key]
) -> Iterator[str]:
    ran = {package for package, _ in ended}
    yield from (package for package in declared if package not in ran)
    names = ((package, name) for package, tests in declared.items() for name in tests)
    for key in dict.fromkeys([*names, *begun]):
        if key[0] in ran and key not in ended:
            yield _named(key)


def _holds_another(key: _Key, failing: Collection[_Key]) -> bool:
    package, test = key
    return any(other[0] == package and other[1].startswith(f"{test}/") for other in failing)


def _last_words(output: Iterable[str]) -> list[str]:
    """Return the lines that say why: the last ones, or those from a panic on."""
    lines = [line for line in "".join(output).splitlines() if not line.startswith("=== ")]
    for number, line in enumerate(lines):
        if line.startswith("panic: "):
            return lines[number:][:_SHOWN_LINES]
    return lines[-_SHOWN_LINES:]
