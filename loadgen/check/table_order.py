"""The order of a query with a table, and the version that each row of the stream is answered about, by the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadgen.check.ordering import NOBODY, Ordered, StreamRows
from loadgen.check.table_log import FrameHead, NamedVersion
from loadgen.check.table_versions import VersionSource
from loadgen.check.verdict import Verdict
from spojoin.errors import ConfigurationError
from spojoin.model import Query

I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]

LEFT, RIGHT = 0, 1


class TableLog(NamedTuple):
    """What tells of a query's table.

    heads: the log's frames that count, at least one; source: where the table's rows come from
    answers: by frame, how many rows its results answer
    """

    heads: Sequence[FrameHead]
    source: VersionSource
    answers: Mapping[int, int]


class Stretch(NamedTuple):
    """Rows of a version among all right rows: [first, end)."""

    first: int
    end: int


_NOTHING = Stretch(0, 0)


def ordered_by_log(query: Query, log: TableLog, lefts: int, verdict: Verdict) -> tuple[Ordered, StreamRows]:
    """The order of the stream's `lefts` numbered rows and of all versions, and the rows of these, one after the other.

    What the log says of versions and their source doesn't goes to the verdict. Raises ConfigurationError where the log
    or the source no longer tells what rows were answered about.
    """
    return _Replay(query, log, lefts, verdict).run()


class _Replay:
    """Follows the log frame by frame. right: the rows of the versions so far, by their number in the source."""

    def __init__(self, query: Query, log: TableLog, lefts: int, verdict: Verdict) -> None:
        self._query, self._log, self._verdict = query, log, verdict
        self._passes = log.source.rows.passing(query.inputs[RIGHT])[0]
        self._lefts = lefts
        first = log.heads[0]
        beyond = max(0, lefts - first.answered - sum(head.answers for head in log.heads))
        count = log.heads[-1].end + beyond
        self._stream = np.full(count, NOBODY, np.int8)
        self._index = np.zeros(count, np.int64)
        self._windows = np.zeros((2, lefts), np.int64)
        self._right: list[I64] = []
        self._rights = self._taken = 0
        self._named: NamedVersion | None = None
        self._current = _NOTHING
        self._starts: set[int] = set()

    def run(self) -> tuple[Ordered, StreamRows]:
        self._begin(self._log.heads[0])
        for head in self._log.heads:
            if head.answers:
                self._take_lefts(head.first_seq, head.count)
            elif head.count:
                self._starts.add(head.first_seq)
            if head.named is not None and head.named != self._named:
                self._take_version(head.named, head.end)
        self._take_lefts(self._log.heads[-1].end, len(self._stream) - self._log.heads[-1].end)
        self._check_end()
        rights = np.concatenate([np.empty(0, np.int64), *self._right])
        windows = self._windows[0], self._windows[1]
        return Ordered(self._stream, self._index, windows), self._log.source.rows.at(rights)

    def _begin(self, head: FrameHead) -> None:
        """Rows before the first frame that the log still has: about the first version, if it tells that much."""
        named = head.named if head.named is not None and _was_current(head.named, head) else None
        if head.answered == 0:
            if named is not None and named.end == head.right_first:
                self._take_version(named, head.first_seq)
            return
        if named is None or named.first > 0 or not self._is_steady(head.frame_id):
            raise ConfigurationError(
                f"the log of query {self._query.name} begins at frame {head.frame_id}, and no longer tells which "
                f"versions of the table the {head.answered} rows answered before it were about: check sooner after the "
                "start, or with a larger SPOJOIN_BATCH_TUPLES, since the log reaches back over a batch at least"
            )
        rows = self._rows_of(named)
        self._place(rows, 0)
        self._named = named
        self._take_lefts(len(rows), head.answered)

    def _is_steady(self, end: int) -> bool:
        """Whether no frame without answers, which could hold rows of a version, follows one with answers."""
        answers = [self._log.answers.get(frame, 0) for frame in range(end)]
        with_answers = [count > 0 for count in answers]
        return with_answers == sorted(with_answers)

    def _take_lefts(self, first: int, count: int) -> None:
        """The next rows of the stream, with these seqs."""
        if count and self._named is None:
            self._verdict.differs(f"seq {first} is answered before the table's first version")
        own = np.arange(first, first + min(count, self._lefts - self._taken))
        if len(own) < count:
            self._verdict.differs(f"the log holds rows from seq {first + len(own)} on that the input lacks")
        self._stream[own], self._index[own] = LEFT, self._taken + np.arange(len(own))
        self._windows[:, self._taken : self._taken + len(own)] = np.array(self._current)[:, None]
        self._taken += len(own)

    def _take_version(self, named: NamedVersion, end: int) -> None:
        """The version of which the last row has the seq before `end`."""
        rows = self._rows_of(named)
        first = end - len(rows)
        begins_frame = first in self._starts or first < self._log.heads[0].first_seq
        if len(rows) and (first < 0 or not begins_frame or (self._stream[first:end] != NOBODY).any()):
            self._verdict.differs(
                f"version {named.content:016x} of the table has {len(rows)} rows, which isn't what the log holds "
                f"before seq {end}"
            )
            rows = rows[len(rows) - self._free_before(end) :]
        self._place(rows, end - len(rows))
        self._named = named

    def _free_before(self, end: int) -> int:
        """How many seqs before `end` have no row yet."""
        taken = np.flatnonzero(self._stream[:end] != NOBODY)
        return end - (int(taken[-1]) + 1 if len(taken) else 0)

    def _rows_of(self, named: NamedVersion) -> I64:
        found = self._log.source.version(named)
        if found.fault is not None:
            self._verdict.differs(found.fault)
        return found.rows[self._passes[found.rows]]

    def _place(self, rows: I64, first: int) -> None:
        """Rows of a version, with seqs from `first` on; it is the current one."""
        own = slice(first, first + len(rows))
        self._stream[own], self._index[own] = RIGHT, self._rights + np.arange(len(rows))
        self._right.append(rows)
        self._current = Stretch(self._rights, self._rights + len(rows))
        self._rights += len(rows)

    def _check_end(self) -> None:
        unread = None if self._named is None else self._log.source.unread(self._named)
        if unread is not None:
            self._verdict.differs(unread)


def _was_current(named: NamedVersion, head: FrameHead) -> bool:
    """Whether the version that a frame names was the current one before it."""
    return not head.holds_table_rows or named.end <= head.right_first
