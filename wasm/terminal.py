"""How a step of ours ends on the command line: a sentence for an error, and the right status."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, NoReturn

from wasm.errors import ProofError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEBUG = "GATEWAY_PROOF_DEBUG"
_INTERRUPTED = 130


def finish(step: Callable[[], None]) -> NoReturn:
    """Run a step and exit: 0, or 2 with the error's sentence as the last line of stderr.

    SIGTERM and SIGHUP are taken as Ctrl-C is, so that clean-up runs for each of them.
    """
    interrupts_clean_up()
    try:
        step()
    except ProofError as error:
        say(last_words(error))
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        say("interrupted; everything that was started has been ended")
        sys.exit(_INTERRUPTED)
    sys.exit(0)


def last_words(error: ProofError) -> str:
    """Return an error as it is shown: its traceback if asked for, its detail, its sentence last."""
    lines = [error.detail, *_notes(error), f"error: {error.sentence}"]
    if os.environ.get(DEBUG):
        lines.insert(0, "".join(traceback.format_exception(error)))
    return "\n".join(line for line in lines if line)


def _notes(error: BaseException | None) -> Iterator[str]:
    """Give what was noted on an error and on those it came from: what failed in closing, say."""
    while error is not None:
        yield from getattr(error, "__notes__", ())
        error = error.__cause__


def say(text: str) -> None:
    """Write to stderr at once."""
    print(text, file=sys.stderr, flush=True)


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
