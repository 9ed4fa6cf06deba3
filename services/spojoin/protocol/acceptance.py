"""How every role reads the log: by one rule, so that all see the same frames (rules P1 to P4 of the protocol page).

A router that was replaced may still append (a zombie), a record may be appended twice, and an append that seemed to
fail may be in the log. Readers need no coordination: whether a record counts follows from earlier records.
"""

from __future__ import annotations

import hashlib
import struct

from spojoin.wire.records import Barrier, Frame, SourceState


class LogFollower:
    """Follows the log from its earliest retained record and decides which records count.

    The first record is trusted: the log starts with a barrier, or with an accepted frame after a trim (P9).
    """

    __slots__ = ("closing", "epoch", "first_indexes", "link", "next_frame", "next_seq")

    def __init__(self) -> None:
        self.epoch = -1
        #: the barrier that has ended the log, because another generation continues (P12); None before
        self.closing: Barrier | None = None
        self.first_indexes: tuple[int, ...] = ()
        self.next_frame = 0
        self.next_seq = 0
        self.link = 0

    @property
    def is_closed(self) -> bool:
        """Whether the log has ended."""
        return self.closing is not None

    def accept(self, record: Frame | Barrier) -> bool:
        """Whether the record counts; if so, this reader moves on."""
        if self.closing is not None:
            return False
        if isinstance(record, Barrier):
            return self._accept_barrier(record)
        if self.epoch < 0:
            self._adopt(record)
        if not self._continues(record):
            return False
        self.next_frame = record.frame_id + 1
        self.next_seq = record.first_seq + record.count
        self.link = record.link
        return True

    def _accept_barrier(self, barrier: Barrier) -> bool:
        if barrier.epoch <= self.epoch:  # P2.3: if two routers claim the same epoch, the first in the log gets it
            return False
        if self.next_frame == 0:  # P2.5
            self.first_indexes = barrier.first_indexes
            self.next_seq = barrier.first_seq or sum(barrier.first_indexes)
        self.epoch = barrier.epoch
        self.closing = barrier if barrier.closes else None
        return True

    def _continues(self, frame: Frame) -> bool:  # P3.1
        return (
            frame.epoch == self.epoch  # P2.4
            and frame.frame_id == self.next_frame
            and frame.first_seq == self.next_seq
            and frame.previous_link == self.link
        )

    def _adopt(self, frame: Frame) -> None:
        self.epoch = frame.epoch
        self.next_frame = frame.frame_id
        self.next_seq = frame.first_seq
        self.link = frame.previous_link


def chain(previous_link: int, frame_id: int, source: SourceState, checkpoint: bytes) -> int:  # P3.2
    """The link of a frame: a 63-bit digest of the previous link and the source offsets that the frame consumed."""
    digest = hashlib.blake2b(digest_size=8)
    digest.update(struct.pack("<qq", previous_link, frame_id))
    for (stream, partition), at in sorted(source.items()):
        digest.update(struct.pack("<qqqqq", stream, partition, at.offset, at.row, at.high_time_us))
    digest.update(checkpoint)
    return int.from_bytes(digest.digest(), "little") >> 1
