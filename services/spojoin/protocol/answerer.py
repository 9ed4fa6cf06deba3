"""Which worker evaluates the mutable part of a frame if workers are answerers, and which one sorts a batch (rule P22).

An *answerer* is a PO-Join worker whose process also has the mutable part and the logical AND of its frames. It takes
its turn by the grid that each frame names, so that all follow one number of workers, the one in the log.
"""

from __future__ import annotations

from typing import NamedTuple

from spojoin.protocol.grid import grid_of
from spojoin.wire.records import Frame


def answerer_of(frame: Frame) -> int:  # P22.7
    """The answerer that evaluates a frame's mutable part: one of the frame's row, in each column in turn."""
    grid = grid_of(frame)
    return grid.asked(frame.frame_id, frame.frame_id // grid.rows % grid.columns)


class AnswererTurn(NamedTuple):
    """The frames and batches that answerer number `worker` takes, and its place behind those of others.

    All answerers store the tuples of every frame, so any of them may take the place of any other.
    """

    worker: int

    def asked(self, frame: Frame) -> int:
        """The answerer that should evaluate a frame's mutable part."""
        return answerer_of(frame)

    def behind(self, frame: Frame) -> int:
        """How many places behind that one this answerer is."""
        return self.places_behind(self.asked(frame), frame)

    def places_behind(self, worker: int, frame: Frame) -> int:
        """How many places behind a worker of the frame's grid this answerer is; the first one is behind the last."""
        return (self.worker - worker) % grid_of(frame).workers

    def has_frame(self, frame: Frame) -> bool:
        """Whether this answerer evaluates a frame's mutable part."""
        return self.asked(frame) == self.worker

    def sorter(self, frame: Frame, batch_id: int) -> int:  # P22.8
        """The answerer that sorts a batch which a frame seals."""
        return batch_id % grid_of(frame).workers

    def has_batch(self, frame: Frame, batch_id: int) -> bool:
        """Whether this answerer sorts a batch which a frame seals."""
        return self.sorter(frame, batch_id) == self.worker
