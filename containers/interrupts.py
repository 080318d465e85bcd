"""Interrupts, as the engines hold them back: as builds do, see wasm/foundation/signals.py."""

from __future__ import annotations

from wasm.foundation.signals import ClosedInPeace, held

__all__ = ["ClosedInPeace", "held"]
