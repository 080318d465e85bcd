"""How a step of ours ends on the command line: a sentence for an error, and the right status."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import IO, TYPE_CHECKING, AnyStr, NoReturn

from wasm import paths
from wasm.errors import ProofError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEBUG = "GATEWAY_PROOF_DEBUG"
INTERRUPTED = 130
# As a shell tells of a program that SIGPIPE has ended.
_UNREAD = 141


def finish(step: Callable[[], None]) -> NoReturn:
    """Run a step and exit: 0, or 2 with the error's sentence as the last line of stderr.

    SIGTERM and SIGHUP are taken as Ctrl-C is, so that clean-up runs for each of them.
    """
    interrupts_clean_up()
    try:
        with paths.errors_in_a_sentence():
            step()
            sys.stdout.flush()
    except ProofError as error:
        say(last_words(error))
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        say("interrupted; everything that was started has been ended")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        _goes_nowhere(sys.stdout)
        say("error: nobody reads the output any more; expected that to its end; run it again")
        sys.exit(_UNREAD)
    sys.exit(0)


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
    """Write a line to stderr at once."""
    show(f"{text}\n", sys.stderr)


def show(text: AnyStr, stream: IO[AnyStr]) -> None:
    """Write to a stream at once; when nobody reads it any more (`| head -1`), go on without."""
    try:
        stream.write(text)
        stream.flush()
    except OSError:  # a pipe without a reader, a terminal that was closed
        _goes_nowhere(stream)


def annotate(sentence: str) -> None:
    """Let GitHub Actions show a sentence beside the change, where it runs this."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        escaped = sentence.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        show(f"::error title=gateway-proof::{escaped}\n", sys.stdout)


def _goes_nowhere(stream: IO[AnyStr]) -> None:
    """Let a stream swallow what it still holds; else Python fails when it is flushed at exit."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - no path of anyone's
        os.dup2(nowhere.fileno(), stream.fileno())


def interrupts_clean_up() -> None:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)


def interrupts_come_too_late() -> None:
    """Let nothing cut short what is quick and must be whole: the writing of what was done."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    # Once is enough: a second one must not cut clean-up short.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
