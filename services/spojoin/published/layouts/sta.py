"""The stream-aware layout: workers of their own for hot keys, power of two choices for the others.

STA, section 4.2 and algorithm 2. Which tuples are hot tells the predictor (section 4.1, ASketch) through its plan; the
router writes it into the frame as flags, so that every worker, and every later life of it, sees the same.

Where this departs from the paper, and why:

- Every worker is asked about every tuple. The paper asks the hot workers and one cold worker drawn at random, and
  leaves the rest to state that cold workers share at checkpoints: what came since is missed.
- Algorithm 2 sets its turn back at each call, and so would always choose the same hot worker. Here the turn is the
  tuple's place among the frame's hot ones, from the frame's first index on.
- A cold tuple's load is counted within its frame. Counts since the beginning would be lost with a worker; counts of a
  frame follow from the frame, and frames that are balanced make a window that is.
- A tuple stays where it was stored when its key cools down: all workers are asked, so nothing is gained by moving it.
- A tuple is hot if any of its columns has a hot key, as the frame's flags have it; the paper has one key.
- A frame without flags (no plan has come yet, or no key is hot) has cold tuples for all workers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.compile import kernel
from spojoin.kernels.spread import spread
from spojoin.published.layouts.layout import I64, FrameShare, Layout, every, indexes
from spojoin.wire.records import NONE_HOT, Frame


class StaLayout(Layout):
    """Hot tuples go round the first workers, cold ones to the less loaded of those drawn among the rest."""

    needs_hot_keys = True

    def share(self, frame: Frame, stream: int, worker: int, workers: int) -> FrameShare:
        """Stored by one worker, evaluated by all."""
        return FrameShare(self._homes(frame, stream, workers) == worker, every(frame, stream))

    def _homes(self, frame: Frame, stream: int, workers: int) -> I64:
        piece, numbers = frame.slices[stream], indexes(frame, stream)
        hot = NONE_HOT if frame.guidance is None else frame.guidance.hot
        is_hot = hot[piece.positions] != 0 if len(hot) else np.zeros(len(piece), np.bool_)
        kept = min(int(self.options["hot_workers"]), workers - 1) if is_hot.any() else 0
        if kept == 0:
            is_hot = np.zeros(len(piece), np.bool_)
        drawn = np.stack([spread(numbers, workers - kept, salt) for salt in range(int(self.options["choices"]))])
        return _assign(is_hot, drawn, kept, piece.first_index, workers)


@kernel
def _assign(is_hot: NDArray[np.bool_], drawn: I64, kept: int, turn: int, workers: int) -> I64:
    """The worker of each tuple, int64 (n,).

    drawn: int64 (choices, n), numbers of cold workers; kept: how many of `workers` are for hot tuples, the first ones
    """
    homes = np.empty(len(is_hot), np.int64)
    load = np.zeros(workers, np.int64)
    for i in range(len(is_hot)):
        if is_hot[i]:
            home = turn % kept
            turn += 1
        else:
            home = kept + drawn[0, i]
            for choice in range(1, len(drawn)):
                other = kept + drawn[choice, i]
                if load[other] < load[home]:
                    home = other
        homes[i] = home
        load[home] += 1
    return homes
