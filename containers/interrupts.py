"""Interrupts, as the engines hold them back: see wasm/interrupts.py, where builds do so too."""

from __future__ import annotations

from wasm.interrupts import ClosedInPeace, held

__all__ = ["ClosedInPeace", "held"]
