"""What ScaleJoin's figures have in common: its benchmark, which CellJoin and the handshake join use as well.

Two attributes are drawn from 1 to 10,000, and both must lie within 10 of one another: one comparison in 250,000 is a
match.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.joins import query_text
from loadgen.papers.layout_cost import SIMULATED, LayoutFeed, MeasuredLayout

CONDITION = "ABS(l.a - r.a) <= 10 AND ABS(l.b - r.b) <= 10"
MATCHES = 1 / 250_000
#: Tuples of each stream in a frame.
HALF = 512
OWN = MeasuredLayout("ScaleJoin", "scale_join", "scan")
HANDSHAKE = MeasuredLayout("Handshake", "handshake", "scan")
HOW = f"{SIMULATED}ScaleJoin's benchmark, frames of {2 * HALF} tuples, a scan with vector instructions."


def feed(window: int, rows: int = 60 * HALF) -> LayoutFeed:
    """Two streams with a window of this many tuples each, and `rows` tuples of each beyond it."""
    text = query_text(CONDITION, ("r", "s"), window // 10 * 10, window // 10)
    count = window + rows
    return LayoutFeed(text, (_columns(count, 1), _columns(count, 2)), (HALF, HALF), 2 * window)


def _columns(rows: int, seed: int) -> dict[str, NDArray[np.float64]]:
    a, b = np.floor(np.random.default_rng(seed).random((2, rows)) * 10_000) + 1
    return {"a": a, "b": b}
