"""What STA's figures have in common: the layouts that are compared, and what they read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from loadgen.papers import data
from loadgen.papers.joins import F64, query_text
from loadgen.papers.layout_cost import FRAME_TUPLES, SIMULATED, LayoutFeed, MeasuredLayout

#: Tuples after the windows are full.
MORE = 40 * FRAME_TUPLES
EIGHT_PIECES = {"length": "8"}
STA = MeasuredLayout("STA", "sta", "chain_b", EIGHT_PIECES)
OTHERS = (
    MeasuredLayout("split join", "split_join"),
    MeasuredLayout("chained index", "split_join", "chain_b", EIGHT_PIECES),
    MeasuredLayout("PIM-Tree", "split_join", "pim_tree"),
    MeasuredLayout("BCHJ", "bchj"),
    MeasuredLayout("multi-chained index", "bchj", "chain_b", EIGHT_PIECES),
)
LAYOUTS = (STA, *OTHERS)
HOW = (
    f"{SIMULATED}Frames of {FRAME_TUPLES} tuples. All layouts are exact here: where the paper asks one cold worker and "
    "shares state at checkpoints, every worker is asked. Split join and BCHJ compare tuple by tuple, with vector "
    "instructions; STA and the chained indexes have B+-trees in eight pieces."
)
WHY = (
    "The paper's nested loops run in Java with a queue before them; here a scan compares with vector instructions, and "
    "trees pay off only where a predicate is narrow and the window large. Part of STA's advantage in the paper is what "
    "it omits: it doesn't ask all workers."
)

#: The columns a and b, given the number of rows.
Draw = Callable[[int], tuple[F64, F64]]


@dataclass(frozen=True, slots=True)
class FigureStream:
    """A self join's condition, and how its columns are drawn."""

    condition: str
    draw: Draw

    def feed(self, window: int) -> LayoutFeed:
        """The join over a window of this many tuples."""
        a, b = self.draw(window + MORE)
        return LayoutFeed(text(self.condition, window), ({"a": a, "b": b},), (FRAME_TUPLES,), window)


def text(condition: str, window: int) -> str:
    """The text of a self join over a window of this many tuples, rounded down to tens."""
    return query_text(condition, ("rows", "rows"), window // 10 * 10, max(window // 10, 1))


def voltage(rows: int) -> tuple[F64, F64]:
    """Two readings of a mains voltage: a narrow normal distribution, in steps of a tenth."""
    drawn = np.random.default_rng(1).normal(230.0, 2.0, (2, rows)).round(1)
    return drawn[0], drawn[1]


def current(rows: int) -> tuple[F64, F64]:
    """Two readings of a current: mostly near zero, with a long tail."""
    drawn = np.random.default_rng(2).exponential(1.5, (2, rows)).round(2)
    return drawn[0], drawn[1]


def zipf(exponent: float) -> Draw:
    """Two columns of Zipf keys."""
    draw = data.zipf(exponent)
    return lambda rows: (draw(rows, 1), draw(rows, 2))
