"""Which tuples of a batch a worker's index holds, and for which probes it is searched: all, or those of its keys (P21).

An index of some tuples numbers them anew, from 0 in the order of their indexes, so it is the same index either way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from spojoin.arrays import I64, Flags
from spojoin.kernels.tail import Tail
from spojoin.model import Query
from spojoin.protocol.frame_evaluation import probe_range
from spojoin.protocol.grid import Share
from spojoin.protocol.key_columns import KeySlots, is_asked, is_held, is_spread, key_slots
from spojoin.wire.records import Batch, Matches, Probes, SortedColumn, SpreadKey
from spojoin.wire.sums import Sums


class AskedProbes(NamedTuple):
    """The probes of a frame, and those of them for which an index is searched.

    asked: whether each probe is searched for; None if all are
    hot: how many of the searched ones every column is asked for
    """

    every: Probes
    searched: Probes
    asked: Flags | None = None
    hot: int = 0

    def completed(self, found: Matches, begin: int, end: int) -> Matches:
        """The matches of every probe at frame positions [begin, end), given those of the searched ones among them."""
        if self.asked is None:
            return found
        first, last = probe_range(self.every.positions, begin, end)
        return _completed(found, self.asked[first:last])


class Selection:
    """Selects all tuples and all probes, under their own numbers."""

    def held(self, batch: Batch, spread: Sequence[SpreadKey]) -> Batch:
        """The batch's tuples that the index holds, with the index's numbers; spread: the spread keys of a frame."""
        return batch

    def asked(self, probes: Probes, spread: Sequence[SpreadKey]) -> AskedProbes:
        """The probes of a frame for which the index is searched, with bounds in the index's numbers."""
        return AskedProbes(probes, probes)

    def number_from(self, index: int) -> int:
        """The index's number of the first of its tuples that has an index of at least `index`."""
        return index

    def forget_below(self, lower: int) -> int:
        """Forget tuples with indexes below `lower`; returns the number from which on the index's tuples stay."""
        return lower


class KeySelection(Selection):
    """Selects the tuples and probes of one column of several, by the key of a stream's tuples."""

    def __init__(self, stream: int, slots: KeySlots, share: Share) -> None:
        self._stream = stream
        self._slots = slots
        self._share = share
        #: the indexes of the index's tuples, by its numbers
        self._indexes = Tail()

    def held(self, batch: Batch, spread: Sequence[SpreadKey]) -> Batch:  # P21.3
        """As the batch's frame says: batches come in order, and a frame that hands one over knows all its keys."""
        key = next(column for column in batch.columns if column.slot == self._slots.stored)
        is_ours = is_held(key.codes, key.order.astype(np.int64), batch.first, self._share, self._own(spread))
        first = self._indexes.end
        self._indexes.append(np.flatnonzero(is_ours) + batch.first)
        return _some_of(batch, is_ours, first)

    def asked(self, probes: Probes, spread: Sequence[SpreadKey]) -> AskedProbes:  # P21.4
        codes = probes.codes[self._slots.probes]
        hot = is_spread(codes, self._own(spread))
        flags = is_asked(codes, self._share, hot)
        lower = probes.lower if len(probes.lower) == 1 else probes.lower[flags]
        searched = replace(
            probes,
            positions=probes.positions[flags],
            codes=tuple(codes[flags] for codes in probes.codes),
            lower=self._numbers_from(lower),
        )
        return AskedProbes(probes, searched, flags, int(hot.sum()))

    def number_from(self, index: int) -> int:
        return int(self._numbers_from(np.array([index]))[0])

    def forget_below(self, lower: int) -> int:
        number = self.number_from(lower)
        self._indexes.drop_below(number)
        return number

    def _own(self, spread: Sequence[SpreadKey]) -> list[SpreadKey]:
        return [key for key in spread if key.stream == self._stream]

    def _numbers_from(self, lower: I64) -> I64:
        """The number of the first tuple with an index of at least `lower`, for each of these bounds."""
        return self._indexes.first + np.searchsorted(self._indexes.held, lower)


def selections_of(query: Query, share: Share | None) -> Mapping[int, Selection]:
    """What a worker's indexes hold, by searched stream; share: the worker's, None if it holds nothing."""
    if share is None or not share.by_key:
        return {direction.target: Selection() for direction in query.directions}
    return {stream: KeySelection(stream, slots, share) for stream, slots in key_slots(query).items()}


def _some_of(batch: Batch, chosen: Flags, first: int) -> Batch:
    """The chosen tuples of a batch, numbered from `first` on; chosen: (n,) by offset."""
    numbers = np.cumsum(chosen) - 1
    return replace(
        batch,
        first=first,
        end=first + int(np.count_nonzero(chosen)),
        columns=tuple(_some_of_column(column, chosen, numbers) for column in batch.columns),
        permutations={},  # the index makes those that it needs
        seqs=batch.seqs[chosen],
        times_us=None,
        keys=None,
        payload=None if batch.payload is None else batch.payload.take(np.flatnonzero(chosen)),
        places=None,
        own=None,
        lower=None,
    )


def _some_of_column(column: SortedColumn, chosen: Flags, numbers: I64) -> SortedColumn:
    kept = chosen[column.order]
    return SortedColumn(column.slot, column.codes[kept], numbers[column.order[kept]].astype(np.uint16))


def _completed(found: Matches, asked: Flags) -> Matches:
    """Matches of all m probes, given those of the asked ones; asked: (m,)."""
    counts = np.zeros(len(asked), np.int64)
    counts[asked] = found.counts
    offsets = None
    if found.offsets is not None:
        lengths = np.zeros(len(asked), np.int64)
        lengths[asked] = np.diff(found.offsets)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
    sums = found.sums
    if sums is not None:
        rows = np.zeros((len(sums.keys), len(asked)), np.int64)
        rows[:, asked] = sums.rows
        sums = Sums(sums.keys, rows)
    return Matches(counts, offsets, found.partners, sums)
