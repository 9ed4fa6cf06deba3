"""The stream-aware layout: hot keys have dedicated workers; the others are placed by power of two choices.

STA, section 4.2 and algorithm 2. The predictor (section 4.1, ASketch) reports which keys are hot; the router flags
their tuples in the frame, so that every worker sees the same flags, now and after any restart.

Departures from the paper, and the reasons:

- Every worker searches for every tuple. The paper asks the hot workers and one cold worker drawn at random, and relies
  on the state that cold workers share at checkpoints for the rest: it misses tuples that came since.
- Algorithm 2 resets its turn at each call, and so would always choose the same hot worker. Here the turn is the tuple's
  place among the frame's hot ones, counted from the frame's first index.
- The load of cold tuples is counted within a frame. Counts since the beginning would be lost with a worker; counts of a
  frame follow from the frame, and balanced frames make a balanced window.
- A tuple stays where it was stored when its key cools down: all workers search for every tuple, so moving it would gain
  nothing.
- A tuple is hot if any of its columns has a hot key, as the frame's flags say; the paper has one key.
- In a frame without flags (no report has come yet, or no key is hot) all tuples are cold, and go to all workers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.layouts.layout import FrameShare, Layout, every, indexes, spread
from spojoin.arrays import I64
from spojoin.kernels.compile import kernel
from spojoin.wire.records import Frame


class StaLayout(Layout):
    """Hot tuples go round the first workers; a cold one goes to the less loaded of workers drawn from the rest."""

    needs_hot_keys = True

    def share(self, frame: Frame, stream: int, worker: int, workers: int) -> FrameShare:
        """Stored by one worker, evaluated by all."""
        return FrameShare(self._homes(frame, stream, workers) == worker, every(frame, stream))

    def _homes(self, frame: Frame, stream: int, workers: int) -> I64:
        piece, numbers = frame.slices[stream], indexes(frame, stream)
        hot = frame.guidance
        is_hot = hot[piece.positions] != 0 if len(hot) else np.zeros(len(piece), np.bool_)
        kept = min(int(self.options["hot_workers"]), workers - 1) if is_hot.any() else 0
        if kept == 0:
            is_hot = np.zeros(len(piece), np.bool_)
        drawn = np.stack([spread(numbers, workers - kept, salt) for salt in range(int(self.options["choices"]))])
        return _assign(is_hot, drawn, kept, piece.first_index, workers)


@kernel
def _assign(is_hot: NDArray[np.bool_], drawn: I64, kept: int, turn: int, workers: int) -> I64:
    """The worker of each tuple, int64 (n,).

    drawn: int64 (choices, n), numbers of cold workers; kept: how many of `workers`, the first ones, take hot tuples
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
