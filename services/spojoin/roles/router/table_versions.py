"""A table on the right side: its versions on their way into the log (rule P17).

A version is all rows of the table, appended to the log as rows of the right stream in frames that hold nothing else.
The frame with its last row makes it the current version: from there on windows begin with its first row.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

import numpy as np

from spojoin.protocol.machine import TableRows
from spojoin.roles.router.queue import Cut, OrderedQueue, Origins, StreamColumns
from spojoin.roles.router.stream_book import StreamBook
from spojoin.wire.records import NEVER, DeadLetter, Rows, SourcePosition, SourceState, resume_position

RIGHT = 1
#: In place of a physical input: a table's rows come with their version, not from an offset of an input.
NO_INPUT = -1
_LAYOUT, _READ = struct.Struct("<qqQ"), struct.Struct("<qq")
#: By partition of the table's topic, ascending, the offset up to which it was read.
ReadTo = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version that is in the log: the right tuples [first, end).

    content: 64 bits that identify the version's rows
    read: how far the table's topic was read for it; empty for a file, and in logs older than this field
    """

    first: int
    end: int
    content: int
    read: ReadTo = ()

    def encoded(self) -> bytes:
        """The checkpoint of a frame (P4)."""
        return _LAYOUT.pack(self.first, self.end, self.content) + b"".join(_READ.pack(*each) for each in self.read)

    @classmethod
    def from_checkpoint(cls, checkpoint: bytes) -> TableVersion | None:
        """The current version according to a frame's checkpoint; None before the first."""
        if not checkpoint:
            return None
        read = tuple((partition, offset) for partition, offset in _READ.iter_unpack(checkpoint[_LAYOUT.size :]))
        first, end, content = _LAYOUT.unpack_from(checkpoint)
        return cls(first, end, content, read)


@dataclass(frozen=True, slots=True)
class _Offered:
    """A version as it is offered: its rows, and the fields that the log keeps."""

    rows: Rows
    content: int
    read: ReadTo

    @classmethod
    def from_rows(cls, version: TableRows) -> _Offered:
        return cls(version.rows, version.content, tuple(sorted(version.read.items())))


@dataclass(slots=True)
class _UnderWay:
    """A version whose rows are partly in the queue or in the log; ahead: stream rows before them in the queue."""

    ahead: int
    rows: int
    version: _Offered


class TableSide:
    """Decides when a version goes into the log, and where frames end for it; mask: the bit of the right stream."""

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
        #: by partition of the table's topic, how far it was read for the offered versions
        self.read: SourceState = {}

    def apply_checkpoint(self, checkpoint: bytes) -> None:
        """Move on by one frame of the log."""
        self.current = TableVersion.from_checkpoint(checkpoint)

    def offer_version(self, version: TableRows, sources: SourceState) -> None:
        """Take a whole version; if several come while one is on its way, the last one follows it.

        sources: how far the table's topic was read according to the log; dead letters before that are counted already
        """
        self.is_offered = True
        self._next = _Offered.from_rows(version)
        start = {**sources, **self.read}
        noted = {partition: resume_position(start, (RIGHT, partition)).offset for partition in version.read}  # P17.7
        self._letters += [each for each in version.rows.dead if each.offset >= noted[each.partition]]
        self.read |= {(RIGHT, number): SourcePosition(offset, 0, NEVER) for number, offset in version.read.items()}
        self.begin_offered_version()

    def begin_offered_version(self) -> None:  # P17.2
        """Append the rows of the offered version to the rows that wait for frames, unless the log has it already."""
        if self._next is None or self._under_way is not None:
            return
        version, self._next = self._next, None
        if self._is_current(version.content):
            return
        self._under_way = _UnderWay(len(self._queue), len(version.rows), version)
        self._book.begin_version()
        self._queue.push(*_queued(version.rows, self._mask))

    def _is_current(self, content: int) -> bool:  # P17.6
        """Whether the log ends with a version of that content, with no part of another version after it."""
        current = self.current
        return current is not None and current.content == content and current.end == self._book.count

    @property
    def is_due(self) -> bool:
        """Whether a version without rows, or a dead letter, waits for a frame, which then needs no rows."""
        one = self._under_way
        return bool(self._letters) if one is None else one.ahead == one.rows == 0

    def take_letters(self) -> list[DeadLetter]:
        """Take the dead letters that the next frame counts."""
        taken, self._letters = self._letters, []
        return taken

    def fit_cut(self, cut: Cut) -> Cut:
        """The part of a frame's rows that all belong to the streams, or all to one version."""
        one = self._under_way
        if one is None:
            return cut
        return replace(cut, count=min(cut.count, one.ahead or one.rows))

    def note_rows_taken(self, cut: Cut) -> None:
        """Note that a frame takes these rows; with a version's last row, this version becomes the current one."""
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

    def checkpoint(self, added: int) -> bytes:  # P17.3
        """The checkpoint of the next frame, which adds `added` right tuples: the current version."""
        if self._ended is not None:
            ended = self._ended
            end = self._book.count + added
            self.current = TableVersion(self._book.version_first, end, ended.content, ended.read)
            self._ended = None
        return b"" if self.current is None else self.current.encoded()


def _queued(rows: Rows, mask: int) -> tuple[Origins, list[StreamColumns | None]]:
    """Rows of a table in the form in which they wait for frames."""
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
