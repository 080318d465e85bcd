"""The one family of errors that a user can put right.

Each message is one sentence or two: what was wrong, what was expected, what to do. The command
line prints it and nothing else, unless ``--debug`` asks for the traceback.
"""


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
    """A source, a ref, a plugin folder or a patch is not what was named."""


class BuildError(ProofError):
    """A module could not be built, or is not one that a gateway can load."""


class GatewayError(ProofError):
    """The gateway or the upstream could not be started, or ended before its time."""


class CaseError(ProofError):
    """A case file does not say what a case must say."""


class EvidenceError(ProofError):
    """Evidence is missing, incomplete, or does not follow from what was observed."""
