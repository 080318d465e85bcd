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
from typing import TYPE_CHECKING, Self

from wasm import lineage
from wasm.errors import ProofError

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


def run(session: nox.Session, *argv: str) -> None:
    """Run ``python ARGV...`` in the session's environment, its output shown as it comes.

    Raises:
        StepFailed: It ended with another status than 0.
        KeyboardInterrupt: It was interrupted, and has cleaned up.
    """
    session.log(shlex.join(["python", *argv]))
    python = Path(session.bin_paths[0] if session.bin_paths else "") / "python"
    parent = os.getpid()
    with _Interrupts() as interrupts:
        # A process group of its own: the terminal's Ctrl-C reaches us alone; we pass it on once.
        with subprocess.Popen(
            [python, *argv],
            env=_environment(session),
            stderr=subprocess.PIPE,
            process_group=0,
            # Nobody waits for it any more when nox itself is killed: it cleans up and ends.
            preexec_fn=lambda: lineage.ends_with(parent, signal.SIGTERM),  # noqa: PLW1509 - nox has no threads
            text=True,
            errors="replace",
        ) as step:
            interrupts.pass_on_to(step)
            sentence = _shown(step)
        if sentence and (interrupts.received or step.returncode == 0):
            _show(f"{_ERROR}{sentence}\n")
        if interrupts.received:
            raise KeyboardInterrupt
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


def _end(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def _shown(step: subprocess.Popen[str]) -> str:
    """Show a step's stderr as it comes; hold back its last error's sentence, for the end."""
    sentence = ""
    for line in step.stderr or ():
        if line.startswith(_ERROR):
            if sentence:
                _show(f"{_ERROR}{sentence}\n")
            sentence = line.removeprefix(_ERROR).strip()
        else:
            _show(line)
    return sentence


def _show(text: str) -> None:
    # A terminal that is gone (SIGHUP) must not keep us from waiting for the step's clean-up.
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


class _Interrupts:
    """Takes signals for a step, and passes the first on to it: its clean-up is not cut short."""

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
            step.send_signal(self.received[0])

    def _take(self, number: int, _frame: object) -> None:
        self.received.append(number)
        if self._step is not None and len(self.received) == 1:
            self._step.send_signal(number)


@contextlib.contextmanager
def ending_in_a_sentence(session: nox.Session) -> Iterator[None]:
    """Let what a user can put right abort the session with its sentence as the last word."""
    try:
        yield
    except (StepFailed, ProofError) as failure:
        session.error(str(failure))


def attempt(session: nox.Session, *argv: str) -> None:
    """Run a step whose failure is worth telling but does not decide the session."""
    try:
        run(session, *argv)
    except StepFailed as failure:
        session.warn(str(failure))
