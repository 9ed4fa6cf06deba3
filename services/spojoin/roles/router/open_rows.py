"""Rows of one side that are open: what their searches need, from the log or from batches (rule P16)."""

from __future__ import annotations

from functools import partial

import numpy as np

from spojoin.kernels.chunked import Chunked
from spojoin.kernels.segments import one_each
from spojoin.kernels.tail import Tail
from spojoin.roles.router.book import continued
from spojoin.roles.router.names import batch_codes
from spojoin.wire.records import I64, NO_OWN, OWN_VOID, Batch, Closing, StreamSlice

_SEQ, _LOWER, _OWN, _TIME, _CODES = range(5)


class OpenRows:
    """What searches of rows need, of indexes [first, end): seqs, lower bounds, own tuples, times and codes."""

    def __init__(self, slots: int) -> None:
        self._columns = _CODES + slots
        self._rows = self._empty(0)
        self._restored: list[tuple[int, I64]] = []
        self._is_begun = False

    def _empty(self, first: int) -> Chunked:
        return Chunked(first, self._columns)

    @property
    def first(self) -> int:
        """The index of the first row that is open."""
        return self._rows.first

    @property
    def end(self) -> int:
        """One past the index of the last row."""
        return self._rows.end

    def begin_at(self, first: int) -> None:
        """Number the first row `first`."""
        self._rows = self._empty(first)
        self._is_begun = True

    def append(self, first_seq: int, piece: StreamSlice) -> None:
        """Hold a frame's rows."""
        if not self._is_begun:
            self.begin_at(piece.first_index)
        if len(piece):
            seqs = first_seq + piece.positions.astype(np.int64)
            self._rows.append(_columns(piece, seqs, piece.codes, piece.lower))

    def restore(self, batch: Batch) -> None:
        """Hold the rows of a batch that the log may no longer have."""
        codes = batch_codes(batch)
        ordered = tuple(codes[slot] for slot in sorted(codes))
        assert batch.lower is not None, "batches of rows that ask say what these may find"
        self._restored.append((batch.first, np.stack(_columns(batch, batch.seqs, ordered, batch.lower))))

    def finish_restore(self, first: int) -> None:
        """Put the rows of restored batches before those of the log's tail; rows below `first` are answered."""
        if self._restored:
            empty = partial(Tail, columns=self._columns)
            tail = empty(self.first)
            tail.append(self._rows.rows(self.end))
            whole = continued(self._restored, tail, empty)
            self._rows = self._empty(whole.first)
            self._rows.append(list(whole.held))
            self._restored.clear()
        self.drop_below(first)

    def drop_below(self, index: int) -> None:
        """Forget rows that are answered."""
        self._rows.drop_below(index)

    def reached(self, otherwise: int) -> int:
        """The first index of the other side that an open row may find; `otherwise` where none is open."""
        return self._rows.value(_LOWER) if len(self._rows) else otherwise

    def times_us(self, end: int) -> I64:
        """The event times of the rows from the first open one to `end`; 0 where rows have none."""
        return self._rows.column(_TIME, end)

    def closing(self, end: int, after: I64, reached: int, *, has_own: bool) -> Closing:
        """The rows from the first open one to `end`; after: int64 (n,), how many rows of the frame precede each."""
        rows = self._rows.rows(end)
        searches = np.flatnonzero(rows[_OWN] != OWN_VOID)
        asking = rows if len(searches) == rows.shape[1] else rows[:, searches]
        lower, own = asking[_LOWER], asking[_OWN]
        return Closing(
            first=self.first,
            seqs=rows[_SEQ],
            positions=searches.astype(np.uint16),
            after=after[searches].astype(np.uint32),
            codes=tuple(asking[_CODES:]),
            lower=lower[:1] if len(lower) and lower[0] == lower[-1] else lower,
            own=own if has_own and len(own) and own.max() > NO_OWN else None,
            reached=reached,
        )

    def __len__(self) -> int:
        return len(self._rows)


def _columns(carrier: StreamSlice | Batch, seqs: I64, codes: tuple[I64, ...], lower: I64) -> list[I64]:
    n = len(seqs)
    own = np.full(n, NO_OWN, np.int64) if carrier.own is None else carrier.own
    times = np.zeros(n, np.int64) if carrier.times_us is None else carrier.times_us
    return [seqs, one_each(lower, n), own, times, *codes]
