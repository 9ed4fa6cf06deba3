"""How every role reads the log: the same rule, so that all see the same frames (rules P1 to P4 of the protocol page).

A router that was replaced may still append (a zombie), a produce may happen twice, and a produce that seemed lost may
be in the log. None of these needs coordination among readers: whether a record counts follows from earlier records.
"""

from __future__ import annotations

import hashlib
import struct

from spojoin.wire.records import Barrier, Frame, SourceState


class LogFollower:
    """Follows the log from its earliest retained record and decides which records count.

    The first record is taken on trust: the log starts with a barrier and is only ever trimmed to a frame that was
    accepted (P9).
    """

    __slots__ = ("closing", "epoch", "first_indexes", "link", "next_frame", "next_seq")

    def __init__(self) -> None:
        self.epoch = -1
        #: what has ended the log, once something has: another generation continues (P12)
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
        """Whether the record counts; a record that does moves this reader on."""
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
        # P2: of two routers that claim the same epoch, the first in the log has it.
        if barrier.epoch <= self.epoch:
            return False
        if self.epoch < 0:
            self.first_indexes = barrier.first_indexes
            self.next_seq = barrier.first_seq or sum(barrier.first_indexes)
        self.epoch = barrier.epoch
        self.closing = barrier if barrier.closes else None
        return True

    def _continues(self, frame: Frame) -> bool:
        # P3: the current epoch, the next frame and seq, and the source offsets it was built on.
        return (
            frame.epoch == self.epoch
            and frame.frame_id == self.next_frame
            and frame.first_seq == self.next_seq
            and frame.previous_link == self.link
        )

    def _adopt(self, frame: Frame) -> None:
        self.epoch = frame.epoch
        self.next_frame = frame.frame_id
        self.next_seq = frame.first_seq
        self.link = frame.previous_link


def chain(previous_link: int, frame_id: int, source: SourceState, checkpoint: bytes) -> int:
    """The link of a frame: a 63-bit digest over the one before it and the source offsets that the frame consumed."""
    digest = hashlib.blake2b(digest_size=8)
    digest.update(struct.pack("<qq", previous_link, frame_id))
    for (stream, partition), at in sorted(source.items()):
        digest.update(struct.pack("<qqqqq", stream, partition, at.offset, at.row, at.high_time_us))
    digest.update(checkpoint)
    return int.from_bytes(digest.digest(), "little") >> 1
