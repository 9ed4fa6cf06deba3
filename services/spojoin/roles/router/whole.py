"""Whether the log holds what a router needs that claims it (rule P9)."""

from __future__ import annotations

from spojoin.protocol.losses import batches_end_early, log_ends_early, lost
from spojoin.protocol.machine import ResultPosition
from spojoin.protocol.made import MadeBatches
from spojoin.protocol.parts import first_reached
from spojoin.wire.records import Batch, Frame


class WholeLog:
    """Notes what a router reads before it claims the log; `result_position` is how far results are out then."""

    def __init__(self, streams: int, result_position: ResultPosition) -> None:
        self._result_position = result_position
        self._made = [MadeBatches() for _ in range(streams)]
        self._begins: tuple[int, ...] | None = None

    def note_batch(self, batch: Batch) -> None:
        """A batch is in its topic."""
        self._made[batch.stream].add(batch.first, batch.end)

    def note_frame(self, frame: Frame) -> None:
        """The next frame of the log."""
        if self._begins is None:
            self._begins = tuple(piece.first_index for piece in frame.slices)

    def check(self, last: Frame | None, next_frame: int) -> None:
        """Raise Stop where frames are lost that are answered, or tuples that windows reach from the last frame on.

        In neither a batch nor the log: `next_frame` is the number behind its last one.
        """
        if missing := log_ends_early(self._result_position, next_frame):
            raise lost(missing)
        if last is None or self._begins is None:
            return
        for stream, (made, begins) in enumerate(zip(self._made, self._begins, strict=True)):
            if (end := made.end(first_reached(last, stream))) < begins:
                raise lost(batches_end_early(stream, end, begins))
