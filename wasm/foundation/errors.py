"""The one family of errors that a user can put right.

Each message is one sentence or two: what was wrong, what was expected, what to do. The command
line prints it and nothing else, unless ``--debug`` asks for the traceback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path


class ProofError(Exception):
    """Something that keeps a proof from being made, and that a user can put right.

    Args:
        sentence: What was wrong, what was expected, what to do; one line.
        detail: Lines that help to see it (a compiler's output, a log's last lines), if any.
    """

    exit_status = 2

    def __init__(self, sentence: str, detail: str = "") -> None:
        super().__init__(sentence)
        self.sentence = " ".join(sentence.split())
        self.detail = detail.strip("\n")

    def __str__(self) -> str:
        return self.sentence


class SourceError(ProofError):
    """A source, a ref, a plugin folder or a patch is not what was named.

    Args:
        found: The sentence, or the part of it that is before the advice.
        detail: As of every error.
        advice: What to do, where others may have to know it apart; the end of the sentence.
    """

    def __init__(self, found: str, detail: str = "", *, advice: str = "") -> None:
        super().__init__(f"{found}; {advice}" if advice else found, detail)
        self.found = found
        self.advice = advice

    def seen_from(self, root: Path) -> Self:
        """Return the same with paths as seen from a folder, one of ours that will be gone."""
        return type(self)(self.found.replace(f"{root}/", ""), self.detail, advice=self.advice)


class MisfitError(SourceError):
    """The built-in fix does not fit a source; the advice is to name another fix."""


class OutputError(ProofError):
    """What is said cannot be written to where it goes."""


class UnreadError(OutputError):
    """Nobody reads any more what is said: a pipe without a reader, a terminal that was closed."""

    # As a shell tells of a program that SIGPIPE has ended.
    exit_status = 141


class BuildError(ProofError):
    """A module could not be built, or is not one that a gateway can load."""


class GatewayError(ProofError):
    """The gateway or the upstream could not be started, or ended before its time."""


class CaseError(ProofError):
    """A case file does not say what a case must say."""


class EvidenceError(ProofError):
    """Evidence is missing, incomplete, or does not follow from what was observed."""
