"""Keeping Ctrl-C, SIGTERM and SIGHUP away from what must be whole; they are raised right after."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_taken: list[int] = []


def interrupt(number: int, _frame: object) -> NoReturn:
    """Raise KeyboardInterrupt, once: a second signal must not cut clean-up short.

    A handler of all three signals.
    """
    for each in _INTERRUPTS:
        signal.signal(each, signal.SIG_IGN)
    _taken.append(number)
    raise KeyboardInterrupt


def raise_taken() -> None:
    """Raise an interrupt again that was lost; called where a step waits for long.

    Python drops what is raised while it removes an object (in ``__del__``, say).

    Raises:
        KeyboardInterrupt: One was taken, and the step still goes on.
    """
    if _taken:
        raise KeyboardInterrupt


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Let no interrupt in between something that is begun and its being known, so cleaned up.

    They are taken and kept, not blocked: what is started meanwhile would start with them blocked,
    and could not be ended by them. Python raises them in its main thread alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    with _blocked():
        before = {
            number: signal.signal(number, lambda taken, _: received.append(taken))
            for number in _INTERRUPTS
            if signal.getsignal(number) not in {signal.SIG_IGN, None}
        }
    try:
        yield
    finally:
        with _blocked():
            for number, handler in before.items():
                signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


@contextlib.contextmanager
def _blocked() -> Iterator[None]:
    """For as long as some handlers are changed and others are not yet."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class ClosedInPeace(contextlib.ExitStack):
    """A stack whose closing no interrupt cuts short."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> bool:
        """Close everything, then let a waiting interrupt through.

        What fails in closing is a note to the error that was on its way: the first error is the
        one that is reported (moby 17555).
        """
        with held():
            try:
                return bool(super().__exit__(kind, error, trace))
            except Exception as late:
                if error is None or late is error:
                    raise
                error.add_note(f"closing failed, too: {late}")
                return False
