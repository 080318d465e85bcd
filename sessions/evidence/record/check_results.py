"""What checks found: every check by its name, and each problem in a clause."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import msgspec

from wasm.foundation.errors import EvidenceError

# A check gives its problems one by one, and returns what it looked at, in a few words.
Check = Generator[str, None, str]
_SHOWN_AT_MOST = 5
_NAME_WIDTH = 14
_ABOUT_WIDTH = 9
# What evidence that was tampered with can make a check stumble over.
_STUMBLES = (
    *(ArithmeticError, AttributeError, EvidenceError, LookupError, OSError, RecursionError),
    # Of XML and of literals that are none.
    *(SyntaxError, TypeError, ValueError, msgspec.MsgspecError),
)


@dataclass(frozen=True)
class Finding:
    """One check.

    Attributes:
        check: Its name.
        about: ``baseline``, ``fixed``, or empty for the whole.
        told: What was looked at, in a few words.
        problems: What does not hold, each in a clause.
    """

    check: str
    about: str
    told: str
    problems: tuple[str, ...]


@dataclass
class Findings:
    """All checks of a bundle or a run.

    Attributes:
        what: ``bundle`` or ``run``.
        made: The checks.
        says: What such evidence says, in a clause: one that holds need not prove anything.
    """

    what: str
    made: list[Finding] = field(default_factory=list)
    says: str = ""

    def look(self, check: str, about: str, of: Callable[[], Check]) -> bool:
        """Make a check, and say whether it holds.

        What it stumbles over is a problem too: evidence can be anything.
        """
        problems: list[str] = []
        told = ""
        try:
            generator = of()
            while True:
                try:
                    problems.append(next(generator))
                except StopIteration as end:
                    told = str(end.value or "")
                    break
        except _STUMBLES as error:
            problems.append(f"{check} cannot be checked: {str(error) or type(error).__name__}")
        self.made.append(Finding(check, about, told, tuple(problems)))
        return not problems

    @property
    def holds(self) -> bool:
        """Whether every check holds; not so when none was made."""
        return bool(self.made) and not self.failed

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The checks that do not hold."""
        return tuple(finding for finding in self.made if finding.problems)

    @property
    def lines(self) -> tuple[str, ...]:
        """A line for each check, below it what does not hold, last of all the sum."""
        lines = []
        for finding in self.made:
            name = f"{finding.check:<{_NAME_WIDTH}}{finding.about:<{_ABOUT_WIDTH}}"
            if not finding.problems:
                lines.append(f"ok    {name} {finding.told}".rstrip())
                continue
            more = len(finding.problems) - _SHOWN_AT_MOST
            lines.append(f"FAIL  {name}".rstrip())
            lines += [f"        {_one_line(p)}" for p in finding.problems[:_SHOWN_AT_MOST]]
            lines += [f"        and {more} more"] if more > 0 else []
        if self.holds:
            says = f"; {_one_line(self.says)}" if self.says else ""
            lines.append(f"verified: all {len(self.made)} checks of the {self.what} hold{says}")
        return tuple(lines)

    @property
    def summary(self) -> str:
        """What does not hold, in a sentence."""
        if not self.failed:
            return f"all {len(self.made)} checks of the {self.what} hold"
        names = ", ".join(f"{finding.about} {finding.check}".strip() for finding in self.failed)
        return (
            f"{len(self.failed)} of {len(self.made)} checks of the {self.what} do not hold: "
            f"{names}; {_one_line(self.failed[0].problems[0])}; expected evidence as it was "
            "written, so run it again, or get an unchanged copy"
        )


def _one_line(text: str) -> str:
    """Show a problem whatever a file put into it: a line, and nothing that moves a cursor."""
    shown = " ".join(text.split())
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown)
