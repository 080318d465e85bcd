"""How a step of ours ends on the command line: a sentence for an error, and the right status."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
import traceback
from typing import IO, TYPE_CHECKING, AnyStr, NoReturn

from wasm.foundation import paths, signals
from wasm.foundation.errors import OutputError, ProofError, UnreadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from _typeshed import ReadableBuffer

DEBUG = "GATEWAY_PROOF_DEBUG"
COMMANDS = "GATEWAY_PROOF_COMMANDS"
"""Names the word that lets a step give GitHub Actions commands: see :func:`give_commands`."""
_WORD = os.environ.pop(COMMANDS, "")  # what a step starts is not to know it
INTERRUPTED = 130
# A pipe without a reader, a terminal that was closed.
_UNREAD = (errno.EPIPE, errno.EIO)


def finish(step: Callable[[], None]) -> NoReturn:
    """Run a step and exit: 0, or 2 with the error's sentence as the last line of stderr.

    SIGTERM and SIGHUP are taken as Ctrl-C is, so that clean-up runs for each of them.
    """
    interrupts_clean_up()
    _tell_of_stdout()
    try:
        with paths.errors_in_a_sentence():
            step()
            sys.stdout.flush()
    except ProofError as error:
        _end(last_words(error), error.exit_status)
    except KeyboardInterrupt:
        _end("interrupted; everything that was started has been ended", INTERRUPTED)
    sys.exit(0)


def _end(words: str, status: int) -> NoReturn:
    """Exit with a status, whatever becomes of what is said: Python would take another for it."""
    with contextlib.suppress(OutputError):
        show("", sys.stdout)  # what was printed before
    with contextlib.suppress(OutputError):
        say(words)
    sys.exit(status)


class _Stdout(io.FileIO):
    """Standard output whose own errors are told from any other pipe's and any other disk's."""

    def write(self, data: ReadableBuffer, /) -> int:
        with _told():
            return super().write(data)


def _tell_of_stdout() -> None:
    """Let what goes wrong in writing to stdout be an OutputError, wherever a step prints."""
    stdout = sys.stdout
    if not isinstance(stdout, io.TextIOWrapper):  # it was closed from the start
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        return
    with contextlib.suppress(io.UnsupportedOperation):  # where a test has put its own
        raw = _Stdout(stdout.fileno(), "wb", closefd=False)
        sys.stdout = io.TextIOWrapper(
            raw if stdout.write_through else io.BufferedWriter(raw),
            encoding=stdout.encoding,
            errors=stdout.errors,
            line_buffering=stdout.line_buffering,
            write_through=stdout.write_through,
        )


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turn what the system says of our own output into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in _UNREAD:
            raise UnreadError(
                "nobody reads the output any more; expected that to its end; run it again"
            ) from error
        raise OutputError(
            f"the output cannot be written ({error.strerror}); expected it to be taken to its "
            "end; make room for it or send it elsewhere, and run it again"
        ) from error


def last_words(error: ProofError) -> str:
    """Return an error as it is shown: what explains it, then its sentence, last of all."""
    return "\n".join([*explanation(error), f"error: {error.sentence}"])


def explanation(error: ProofError) -> list[str]:
    """Return what is shown before an error's sentence: its traceback if asked for, its detail."""
    lines = [error.detail, *_notes(error)]
    if os.environ.get(DEBUG):
        lines.insert(0, "".join(traceback.format_exception(error)))
    return [line for line in lines if line]


def _notes(error: BaseException | None) -> Iterator[str]:
    """Give what was noted on an error and on those it came from: what failed in closing, say."""
    while error is not None:
        yield from getattr(error, "__notes__", ())
        error = error.__cause__


def say(text: str) -> None:
    """Write a line to stderr at once, as :func:`show` does."""
    show(f"{text}\n", sys.stderr)


def show(text: AnyStr, stream: IO[AnyStr]) -> None:
    """Write to a stream at once; when nobody reads it any more (`| head -1`), go on without.

    Raises:
        OutputError: It cannot be written: the disk is full, say. This is told once; from then on
            the stream takes everything and goes nowhere.
    """
    try:
        with _told():
            stream.write(text)
            stream.flush()
    except OutputError as error:
        _goes_nowhere(stream)
        if not isinstance(error, UnreadError):
            raise


def annotate(sentence: str) -> None:
    """Let GitHub Actions show a sentence beside the change, where it runs this."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        give_commands([annotation("gateway-proof", sentence)])


def give_commands(lines: Sequence[str]) -> None:
    """Give GitHub Actions commands, which it takes from no other line that a session's step shows.

    What a step shows may come from the source under proof, or from what it runs; so sessions stop
    GitHub's taking of commands for as long as a step runs, with a word that only the step knows.
    """
    given = [f"::{_WORD}::", *lines, f"::stop-commands::{_WORD}"] if _WORD and lines else lines
    show("".join(f"{line}\n" for line in given), sys.stdout)


def annotation(title: str, sentence: str) -> str:
    """Return the line that lets GitHub Actions show a sentence, escaped as its runner reads it."""
    escaped = sentence.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::error title={title}::{escaped}"


def _goes_nowhere(stream: IO[AnyStr]) -> None:
    """Let a stream swallow what it still holds; else Python fails when it is flushed at exit."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - no path of anyone's
        os.dup2(nowhere.fileno(), stream.fileno())


def interrupts_clean_up() -> None:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signals.interrupt)


def interrupts_come_too_late() -> None:
    """Let nothing cut short what is quick and must be whole: the writing of what was done."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
