"""What rows of both sides of a FULL JOIN must be answered, in the order in which they answer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadgen.check.asked_rows import LEFT, RIGHT, partners
from loadgen.check.nested_loop import NestedLoop, Tuples
from loadgen.check.pair_rows import NO_ROW, PairSource
from spojoin.model import EmitOn, Query

I64 = NDArray[np.int64]

#: When a row closes that nothing closes.
NEVER = np.int64(1) << 62


def moments(query: Query, tuples: Tuples, side: int) -> I64:
    """When each row of a side answers: int64 (n,), ascending.

    At arrival that is its seq. On close it is the last event time that reaches it, or the seq of the row of its side
    that moves the window past it.
    """
    seqs = tuples.seqs(side)
    if query.emit is EmitOn.ARRIVAL:
        return seqs
    window = query.window_over(side)
    if window.is_time:
        assert tuples.times_us is not None, "a time window needs times"
        reached: I64 = (tuples.times_us[seqs] + window.length) // window.slide * window.slide
        return reached
    past = (np.arange(len(seqs)) + window.length) // window.slide * window.slide
    return np.where(past < len(seqs), seqs[np.minimum(past, len(seqs) - 1)], NEVER) if len(seqs) else seqs


class FullSource(PairSource):
    """Lists rows of both sides with their partners; spans are of answers."""

    def _in_order(self, loop: NestedLoop, first: int, end: int) -> tuple[I64, I64, I64]:
        """The answers [first, end), each row before its pairs: numbers of answers, and the seqs of both sides."""
        sides = [moments(self.query, self.tuples, side) for side in (LEFT, RIGHT)]
        is_right = np.repeat([False, True], [len(own) for own in sides])
        order = np.lexsort((is_right, np.concatenate(sides)))
        found = []
        for side in (LEFT, RIGHT):
            numbers = np.flatnonzero(is_right[order] == (side == RIGHT))
            some = slice(*np.searchsorted(numbers, (first, end)).tolist())
            own, other = partners(self.query, loop, side, some.start, some.stop)
            seqs = loop.seqs[side]
            own = np.concatenate((seqs[some], own))
            other = np.concatenate((np.full(some.stop - some.start, NO_ROW), other))
            pair = (own, other) if side == LEFT else (other, own)
            found.append((numbers[np.searchsorted(seqs, own)], *pair, other))
        answers, left, right, others = (np.concatenate(columns) for columns in zip(*found, strict=True))
        within = np.lexsort((others, answers))
        return answers[within], left[within], right[within]
