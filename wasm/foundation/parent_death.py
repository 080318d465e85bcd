"""Ending with whoever started us, however that one ends: Linux' parent-death signal."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def ends_with(parent: int, number: signal.Signals) -> None:
    """Let the kernel send this process a signal when its parent ends; for ``preexec_fn``.

    Elsewhere than on Linux there is no such signal, and nothing is done.
    """
    if not hasattr(_libc, "prctl"):
        return
    _libc.prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it had ended before we asked
        os.kill(os.getpid(), number)
