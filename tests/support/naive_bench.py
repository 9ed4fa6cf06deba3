"""Plain-Python twins of the benchmark's baselines."""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[float, float]


def counts(stored: Sequence[Pair], probe: Pair) -> tuple[int, int]:
    """Matches of a probe as left (l.a > r.a, l.b < r.b) and as right side."""
    x, y = probe
    as_left = sum(1 for a, b in stored if x > a and y < b)
    as_right = sum(1 for a, b in stored if a > x and b < y)
    return as_left, as_right


def window_of(seq: int, length: int, slide: int) -> range:
    """Seqs in the window of tuple `seq`, found by walking."""
    reached = 0
    while reached < seq:
        reached += slide
    return range(max(reached - length, 0), seq)
