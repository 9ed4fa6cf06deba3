"""The log as a router reads, claims and writes it (rules P2 and P9)."""

from __future__ import annotations

from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.frame_evaluation import first_reached
from spojoin.protocol.generations import Beginning
from spojoin.protocol.machine import ResultPosition
from spojoin.protocol.retention import BatchedTuples, batches_end_early, log_ends_early, stop_for_loss
from spojoin.wire.records import Barrier, Batch, Frame, SourceState


class RouterLog:
    """The state of the log: its last frame, what the next frame must follow, and which router owns it.

    claimed: the epoch of this router's own barrier; epoch: the epoch of its frames; -1 before there is one
    """

    def __init__(self, router_id: str, beginning: Beginning, streams: int, result_position: ResultPosition) -> None:
        self.reader = LogFollower()
        self.whole = WholeLog(streams, result_position)
        self.last: Frame | None = None
        self.claimed = -1
        self.epoch = -1
        self.next_frame = 0
        self.next_seq = 0
        self.link = 0
        self._router_id = router_id
        self._beginning = beginning

    def claim_barrier(self) -> Barrier:  # P2.2
        """The barrier that claims the log with the next epoch. Raises Stop if the log has lost what results need."""
        self.whole.check_whole(self.last, self.reader.next_frame)
        self.claimed = self.reader.epoch + 1
        return self.barrier(self.claimed)

    def barrier(self, epoch: int) -> Barrier:
        beginning = self._beginning
        return Barrier(
            epoch,
            self._router_id,
            beginning.fingerprint,
            first_indexes=beginning.first_indexes,
            first_seq=beginning.first_seq,
        )

    def adopt_claim(self) -> None:
        """Continue from the log's state at this router's barrier, which was read back as the first of its epoch."""
        reader = self.reader
        self.epoch, self.next_frame, self.next_seq, self.link = (
            reader.epoch,
            reader.next_frame,
            reader.next_seq,
            reader.link,
        )

    def move_past(self, frame: Frame) -> None:
        """Move on by a frame that this router writes."""
        self.next_frame += 1
        self.next_seq += frame.count
        self.link = frame.link

    def sources(self) -> SourceState:  # P4.1
        """Where to resume each input from which a frame took rows (P4)."""
        return self._beginning.starts if self.last is None else self.last.source


class WholeLog:
    """Notes what a router reads before it claims the log; `result_position`: how far results are out then."""

    def __init__(self, streams: int, result_position: ResultPosition) -> None:
        self._result_position = result_position
        self._made = [BatchedTuples() for _ in range(streams)]
        self._begins: tuple[int, ...] | None = None

    def note_batch(self, batch: Batch) -> None:
        """Note a batch in its topic."""
        self._made[batch.stream].add_batch(batch.first, batch.end)

    def note_frame(self, frame: Frame) -> None:
        """Note the next frame of the log."""
        if self._begins is None:
            self._begins = tuple(piece.first_index for piece in frame.slices)

    def check_whole(self, last: Frame | None, next_frame: int) -> None:
        """Raise Stop if answered frames are lost, or tuples that windows reach from the last frame on.

        Such tuples are in neither a batch nor the log. `next_frame`: the number after the log's last frame.
        """
        if missing := log_ends_early(self._result_position, next_frame):
            raise stop_for_loss(missing)
        if last is None or self._begins is None:
            return
        for stream, (made, begins) in enumerate(zip(self._made, self._begins, strict=True)):
            if (end := made.batched_to(first_reached(last, stream))) < begins:
                raise stop_for_loss(batches_end_early(stream, end, begins))
