"""What PIM-Tree's figures have in common: one band join, and the trees that are compared.

The band is `|l.a - r.a| <= d` over whole numbers, with d such that a probe finds two tuples, on windows that move tuple
by tuple. The paper used eight cores with sixteen threads and windows of millions of tuples; here it is two cores and
smaller windows.
"""

from __future__ import annotations

import numpy as np

from loadgen.papers import data
from loadgen.papers.joins import MORE, MeasuredJoin, cross_join, self_join
from loadgen.papers.sweep import Line

MATCHES = 2.0
WINDOW, QUICK_WINDOW = 1 << 18, 1 << 13
WINDOW_LABEL = "tuples of each window"
HOW = (
    "Two streams, one band, two matches per probe, windows that move tuple by tuple, and one thread unless stated. "
    "The product's own method takes slides of a 64th of the window, and its time includes order, batches and results."
)
SIZE_WHY = (
    "Keys are 8 bytes with a column of codes beside them, in nodes that are numba arrays; the paper's are 4 bytes in "
    "C++."
)
B_TREE = Line("B+-tree", "bplus_bits")
IM, PIM = Line("IM-Tree", "im_tree"), Line("PIM-Tree", "pim_tree", {"depth": "2"})
TWO_THREADS = Line("PIM-Tree, two threads", "pim_tree", {"threads": "2", "depth": "2"})


def two_way(
    window: float,
    other: int = 0,
    share: float = 0.5,
    draw: data.Draw = data.uniform,
    matches: float = MATCHES,
    slide: int = 1,
) -> MeasuredJoin:
    """A band join of two streams; `share` of all tuples belong to the first, `other` is the second's window."""
    sizes = (int(window), other or int(window))
    shares = (share, 1 - share)
    turns = max(size / part for size, part in zip(sizes, shares, strict=True))
    first, second = (int(turns * part) + MORE for part in shares)
    columns = ((draw(first, 1), np.zeros(first)), (draw(second, 2), np.zeros(second)))
    width = data.band_width(draw, max(sizes), matches)
    return cross_join(_condition(width), columns, sizes, (slide, slide), share)


def one_stream(window: float) -> MeasuredJoin:
    """A band join of one stream with itself."""
    size = int(window)
    rows = size + MORE
    width = data.band_width(data.uniform, size, MATCHES)
    return self_join(_condition(width), data.uniform(rows, 1), np.zeros(rows), size, 1)


def _condition(width: float) -> str:
    return f"ABS(l.a - r.a) <= {width:.0f}"
