"""Running a step of a session: a process in the session's environment, with one way to end.

Not ``session.run``: a step must get the time its clean-up takes after Ctrl-C (nox 369), must get
SIGTERM too, and its error's sentence is to be the last thing that is shown.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, AnyStr, Self

from wasm.foundation import parent_death, paths, terminal
from wasm.foundation.errors import OutputError, ProofError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import nox

_ERROR = "error: "
_FOREIGN = (
    *("PYTEST_", "PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH", "PYTHONOPTIMIZE"),
    *("PYTHONWARNINGS", "PYTHONSTARTUP", "PYTHONINSPECT"),
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StepFailed(Exception):  # noqa: N818 - what happened, told to the session
    """A step ended with another status than 0; with the sentence that it gave."""


def run(session: nox.Session, *argv: str, until_ctrl_c: bool = False) -> None:
    """Run ``python ARGV...`` in the session's environment, its output shown as it comes.

    Args:
        session: The session that it is a step of.
        argv: Python's arguments.
        until_ctrl_c: Whether it waits for a Ctrl-C when its work is done: one that it took as
            the end, and not as an interrupt, is none for the session either.

    Raises:
        StepFailed: It ended with another status than 0.
        OutputError: What it said cannot be written to where ours goes.
        KeyboardInterrupt: It was interrupted, and has cleaned up.
    """
    session.log(shlex.join(["python", *argv]))
    python = Path(session.bin_paths[0] if session.bin_paths else "") / "python"
    parent = os.getpid()
    screen = _Screen()
    environment = _environment(session)
    with _Interrupts() as interrupts, _commands_of_ours_alone(environment, screen):
        # A process group of its own: the terminal's Ctrl-C reaches us alone; we pass it on once.
        with subprocess.Popen(
            [python, *argv],
            env=environment,
            # A terminal is the step's own; a pipe may lose its reader (`| head -1`), which is to
            # end no proof half-way.
            stdout=None if sys.stdout.isatty() else subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            # Nobody waits for it any more when nox itself is killed: it cleans up and ends.
            preexec_fn=lambda: parent_death.ends_with(parent, signal.SIGTERM),  # noqa: PLW1509 - nox has no threads
            text=True,
            errors="replace",
        ) as step:
            interrupts.pass_on_to(step)
            with _handing_on(step.stdout, screen):
                sentence = _shown(step, screen)
        awaited = until_ctrl_c and {*interrupts.received} == {signal.SIGINT}
        cut_short = step.returncode in (terminal.INTERRUPTED, -signal.SIGTERM)
        interrupted = bool(interrupts.received) and (cut_short or not awaited)
        if sentence and (interrupted or step.returncode == 0 or screen.failure is not None):
            screen.show(f"{_ERROR}{sentence}\n", sys.stderr)
        if interrupted:
            if screen.failure is not None:
                screen.show(f"{_ERROR}{screen.failure}\n", sys.stderr)
            raise KeyboardInterrupt
    if screen.failure is not None:
        raise screen.failure
    if step.returncode != 0:
        raise StepFailed(sentence or f"{shlex.join(argv[:3])} {_end(step.returncode)}")


def _environment(session: nox.Session) -> dict[str, str]:
    """Return ours with the session's changes; a variable that it sets to None is left out.

    Nor does a step see what would change how Python or pytest run it: ``PYTEST_ADDOPTS`` alone can
    make a run green in which nothing was run.
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    merged: dict[str, str | None] = {**ours, **session.env}
    return {name: value for name, value in merged.items() if value is not None}


@contextlib.contextmanager
def _commands_of_ours_alone(environment: dict[str, str], screen: _Screen) -> Iterator[None]:
    """Let GitHub Actions take none of what a step shows for a command, save what we give it."""
    if environment.get("GITHUB_ACTIONS") != "true":
        yield
        return
    word = secrets.token_hex(16)
    environment[terminal.COMMANDS] = word
    screen.show(f"::stop-commands::{word}\n", sys.stdout)
    try:
        yield
    finally:
        screen.show(f"::{word}::\n", sys.stdout)


def _end(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


class _Screen:
    """Where a step's output is shown; that it cannot be ends no step half-way, but the session."""

    failure: OutputError | None = None

    def show(self, text: AnyStr, stream: IO[AnyStr]) -> None:
        try:
            terminal.show(text, stream)
        except OutputError as failure:
            self.failure = self.failure or failure


def _shown(step: subprocess.Popen[str], screen: _Screen) -> str:
    """Show a step's stderr as it comes; hold back its last error's sentence, for the end."""
    sentence = ""
    for line in step.stderr or ():
        if line.startswith(_ERROR):
            if sentence:
                screen.show(f"{_ERROR}{sentence}\n", sys.stderr)
            sentence = line.removeprefix(_ERROR).strip()
        else:
            screen.show(line, sys.stderr)
    return sentence


@contextlib.contextmanager
def _handing_on(stdout: IO[str] | None, screen: _Screen) -> Iterator[None]:
    """Show what comes from a step's stdout, as it comes, until it ends."""
    if stdout is None:
        yield
        return

    def hand_on() -> None:
        while some := os.read(stdout.fileno(), 65536):
            screen.show(some, sys.stdout.buffer)

    thread = threading.Thread(target=hand_on)
    thread.start()
    try:
        yield
    finally:
        thread.join()


class _Interrupts:
    """Takes signals for a step, and passes the first on to it: its clean-up is not cut short.

    As SIGTERM, whichever it was: a step that is still being started then ends without a word,
    where SIGINT would show what Python was just importing.
    """

    def __init__(self) -> None:
        self.received: list[int] = []
        self._step: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        # What is ignored stays so: `nohup nox ...` outlives its terminal.
        self._before = {
            number: signal.signal(number, self._take)
            for number in _SIGNALS
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def pass_on_to(self, step: subprocess.Popen[str]) -> None:
        """Name the step; what came while it was being started is passed on now."""
        self._step = step
        if self.received:
            step.send_signal(signal.SIGTERM)

    def _take(self, number: int, _frame: object) -> None:
        self.received.append(number)
        if self._step is not None and len(self.received) == 1:
            self._step.send_signal(signal.SIGTERM)


@contextlib.contextmanager
def ending_in_a_sentence(session: nox.Session) -> Iterator[None]:
    """Let what a user can put right abort the session with its sentence as the last word."""
    try:
        with paths.errors_in_a_sentence():
            yield
    except (StepFailed, ProofError) as failure:
        session.error(str(failure))


def attempt(session: nox.Session, *argv: str, until_ctrl_c: bool = False) -> None:
    """Run a step whose failure is worth telling but does not decide the session."""
    try:
        run(session, *argv, until_ctrl_c=until_ctrl_c)
    except StepFailed as failure:
        session.warn(str(failure))
