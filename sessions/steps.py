"""Running a step of a session: a process in the session's environment, with one way to end.

Not ``session.run``: a step must get the time its clean-up takes after Ctrl-C (nox 369), must get
SIGTERM too, and its error's sentence is to be the last thing that is shown.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import nox

_ERROR = "error: "
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StepFailed(Exception):  # noqa: N818 - what happened, told to the session
    """A step ended with another status than 0; with the sentence that it gave."""


def run(session: nox.Session, *argv: str, env: dict[str, str] | None = None) -> None:
    """Run ``python ARGV...`` in the session's environment, its output shown as it comes.

    Raises:
        StepFailed: It ended with another status than 0.
        KeyboardInterrupt: It was interrupted, and has cleaned up.
    """
    session.log(shlex.join(["python", *argv]))
    environment = {**os.environ, **{k: v for k, v in session.env.items() if v is not None}}
    environment |= env or {}
    python = Path(session.bin_paths[0] if session.bin_paths else "") / "python"
    # A process group of its own: the terminal's Ctrl-C reaches us alone, and we pass it on once.
    with (
        subprocess.Popen(
            [python, *argv],
            env=environment,
            stderr=subprocess.PIPE,
            process_group=0,
            text=True,
            errors="replace",
        ) as step,
        _passing_on(step) as received,
    ):
        sentence = _shown(step)
        status = step.wait()
    if received:
        raise KeyboardInterrupt
    if status != 0:
        raise StepFailed(sentence or f"{shlex.join(argv[:3])} ended with status {status}")


def _shown(step: subprocess.Popen[str]) -> str:
    """Show a step's stderr; keep the sentence of its error for the end."""
    sentence = ""
    for line in step.stderr or ():
        if line.startswith(_ERROR):
            sentence = line.removeprefix(_ERROR).strip()
        else:
            sys.stderr.write(line)
            sys.stderr.flush()
    return sentence


@contextlib.contextmanager
def _passing_on(step: subprocess.Popen[str]) -> Iterator[list[int]]:
    """Pass signals on to the step, each kind once, and wait for it in peace."""
    received: list[int] = []

    def handler(number: int, _frame: object) -> None:
        if not received:
            with contextlib.suppress(ProcessLookupError):
                step.send_signal(number)
        received.append(number)

    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield received
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextlib.contextmanager
def ending_in_a_sentence(session: nox.Session) -> Iterator[None]:
    """Let a failed step abort the session with its sentence as the last word."""
    try:
        yield
    except StepFailed as failure:
        session.error(str(failure))


def attempt(session: nox.Session, *argv: str) -> None:
    """Run a step whose failure is worth telling but does not decide the session."""
    try:
        run(session, *argv)
    except StepFailed as failure:
        session.warn(str(failure))
