"""Keeping Ctrl-C, SIGTERM and SIGHUP away from what must be whole; they are raised right after."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Let no interrupt in between something that is begun and its being known, so cleaned up."""
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
        """Close everything, then let a waiting interrupt through."""
        with held():
            return bool(super().__exit__(kind, error, trace))
