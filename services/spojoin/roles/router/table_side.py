"""A table on the right side: its versions on their way into the log (rule P17).

A version is all rows of the table, appended to the log as rows of the right stream in frames that hold nothing else.
The frame with the last of them makes it the current one: from there on windows begin with its first row.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

import numpy as np

from spojoin.protocol.answered import NEVER
from spojoin.protocol.machine import TableRows
from spojoin.roles.router.book import StreamBook
from spojoin.roles.router.cutting import Cut
from spojoin.roles.router.physical_input import start_of
from spojoin.roles.router.queue import OrderedQueue, Origins, StreamColumns
from spojoin.wire.records import DeadLetter, Rows, SourcePosition, SourceState

RIGHT = 1
#: In place of a physical input: rows of a table come with their version, not from a place of an input.
NO_INPUT = -1
_LAYOUT, _READ = struct.Struct("<qqQ"), struct.Struct("<qq")
#: By partition of the table's topic, ascending, the offset up to which it was read.
ReadTo = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version that is in the log: the right tuples [first, end).

    content: what tells its rows from those of other versions, 64 bits
    read: how far the table's topic was read for it; empty of a file, and in logs older than this field
    """

    first: int
    end: int
    content: int
    read: ReadTo = ()

    def encoded(self) -> bytes:
        """As the checkpoint of a frame (P4)."""
        return _LAYOUT.pack(self.first, self.end, self.content) + b"".join(_READ.pack(*each) for each in self.read)

    @classmethod
    def of(cls, checkpoint: bytes) -> TableVersion | None:
        """The current version by a frame's checkpoint; None before the first."""
        if not checkpoint:
            return None
        read = tuple((partition, offset) for partition, offset in _READ.iter_unpack(checkpoint[_LAYOUT.size :]))
        first, end, content = _LAYOUT.unpack_from(checkpoint)
        return cls(first, end, content, read)


@dataclass(frozen=True, slots=True)
class _Offered:
    """A version as it is given: its rows, and what the log says of it."""

    rows: Rows
    content: int
    read: ReadTo

    @classmethod
    def of(cls, version: TableRows) -> _Offered:
        return cls(version.rows, version.content, tuple(sorted(version.read.items())))


@dataclass(slots=True)
class _UnderWay:
    """A version whose rows wait in the queue or are in the log in part; ahead: stream rows in the queue before them."""

    ahead: int
    rows: int
    version: _Offered


class TableSide:
    """Decides when a version goes into the log, and where frames end for it; `mask`: the bit of the right stream."""

    def __init__(self, queue: OrderedQueue, book: StreamBook, mask: int) -> None:
        self._queue = queue
        self._book = book
        self._mask = mask
        self.current: TableVersion | None = None
        #: whether a version has been offered to this router: before that, no left row takes a number
        self.is_offered = False
        self._next: _Offered | None = None
        self._under_way: _UnderWay | None = None
        self._ended: _Offered | None = None
        self._letters: list[DeadLetter] = []
        #: by partition of the table's topic, how far it was read for the versions offered
        self.read: SourceState = {}

    def note(self, checkpoint: bytes) -> None:
        """Move on by one frame of the log."""
        self.current = TableVersion.of(checkpoint)

    def offer(self, version: TableRows, sources: SourceState) -> None:
        """A version, whole: of several that come while one is on its way, the last follows it.

        sources: how far the log says that the table's topic was read: dead letters before that are counted already
        """
        self.is_offered = True
        self._next = _Offered.of(version)
        start = {**sources, **self.read}
        noted = {partition: start_of(start, RIGHT, partition).offset for partition in version.read}
        self._letters += [each for each in version.rows.dead if each.offset >= noted[each.partition]]
        self.read |= {(RIGHT, number): SourcePosition(offset, 0, NEVER) for number, offset in version.read.items()}
        self.begin()

    def begin(self) -> None:
        """Put the rows of the version that was offered behind what waits for frames, unless the log has it already."""
        if self._next is None or self._under_way is not None:
            return
        version, self._next = self._next, None
        if self._is_current(version.content):
            return
        self._under_way = _UnderWay(len(self._queue), len(version.rows), version)
        self._book.begin_version()
        self._queue.push(*_queued(version.rows, self._mask))

    def _is_current(self, content: int) -> bool:
        """Whether the log ends with a version of that content: behind it lies no part of another one."""
        current = self.current
        return current is not None and current.content == content and current.end == self._book.count

    @property
    def is_due(self) -> bool:
        """Whether a version without rows, or a dead letter, waits for a frame, which then needs no rows."""
        one = self._under_way
        return bool(self._letters) if one is None else one.ahead == one.rows == 0

    def take_letters(self) -> list[DeadLetter]:
        """The dead letters that the frame in the making counts."""
        taken, self._letters = self._letters, []
        return taken

    def fitted(self, cut: Cut) -> Cut:
        """The part of a frame's rows that are all the streams' or all of one version."""
        one = self._under_way
        if one is None:
            return cut
        return replace(cut, count=min(cut.count, one.ahead or one.rows))

    def takes(self, cut: Cut) -> None:
        """Note that a frame takes these rows; with the last of a version, that is the current one from the frame on."""
        one = self._under_way
        if one is None:
            return
        if one.ahead:
            one.ahead -= cut.count
            return
        one.rows -= cut.count
        if one.rows == 0:
            self._ended, self._under_way = one.version, None
            self._book.end_version()

    def checkpoint(self, added: int) -> bytes:
        """What the frame in the making, which adds so many right tuples, says of the current version."""
        if self._ended is not None:
            ended = self._ended
            end = self._book.count + added
            self.current = TableVersion(self._book.version_first, end, ended.content, ended.read)
            self._ended = None
        return b"" if self.current is None else self.current.encoded()


def _queued(rows: Rows, mask: int) -> tuple[Origins, list[StreamColumns | None]]:
    """Rows of a table as they wait for frames."""
    count = len(rows)
    everywhere = np.full(count, mask, np.uint8)
    origins = Origins(
        inputs=np.full(count, NO_INPUT, np.int64),
        ids=np.arange(count, dtype=np.int64),
        streams=np.full(count, RIGHT, np.uint8),
        produced_ms=rows.produced_ms,
        members=everywhere if rows.members is None else rows.members,
        joins=everywhere if rows.joins is None else rows.joins,
    )
    return origins, [None, StreamColumns(rows.codes, rows.times_us, rows.keys, rows.payload)]
