"""Numbers for values that only equality compares: texts, bytes.

A value keeps its number as long as a window can reach a row with that value. The log has the numbers, and the values as
payload, so a restarted router learns the numbers of values from frames and batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spojoin.arrays import I64
from spojoin.columns.stream_columns import AssignedSlot, assigned_slots
from spojoin.model import Query
from spojoin.wire.records import Batch

#: How many values are kept before the first sweep, which visits all values to forget those that no window reaches.
SWEEP_MIN = 1 << 16


class ValueNumbers:
    """The numbers of all values that some window reaches, shared by both sides of every equality."""

    def __init__(self, query: Query) -> None:
        self._slots: list[Sequence[AssignedSlot]] = [assigned_slots(stream) for stream in query.streams]
        #: each value's place in `_numbers` and `_last`
        self._places: dict[Any, int] = {}
        self._numbers = np.empty(0, np.int64)
        #: (streams, values): the index of the last row of each stream that has the value, -1 if none has
        self._last = np.empty((len(query.streams), 0), np.int64)
        self._next = 0
        self._a_tuple = sum(map(len, self._slots))
        self._sweep_at = SWEEP_MIN

    @property
    def is_needed(self) -> bool:
        """Whether the query compares such values."""
        return any(self._slots)

    def __len__(self) -> int:
        return len(self._places)

    def begin_frame(self, first_seq: int) -> None:  # P13.2
        """Begin a frame at `first_seq`: its new numbers are greater than those of all earlier frames.

        So if the log has two numbers for a value that was forgotten and came again, the greater one counts.
        """
        self._next = max(self._next, first_seq * self._a_tuple)

    def number_codes(
        self, stream: int, codes: tuple[I64, ...], payload: pa.RecordBatch | None, first: int
    ) -> tuple[I64, ...]:
        """The codes, int64 (n,), of rows from index `first` on, with the codes of texts and bytes filled in."""
        if not self._slots[stream] or payload is None:
            return codes
        filled = list(codes)
        for slot in self._slots[stream]:
            filled[slot.slot] = _of_values(
                payload.column(slot.column), lambda values, at: self._numbers_of(values, stream, first + at)
            )
        return tuple(filled)

    # P13.3
    def learn_numbers(
        self, stream: int, codes: Mapping[int, I64] | Sequence[I64], payload: pa.RecordBatch | None, first: int
    ) -> None:
        """Learn numbers from the log; codes: int64 (n,) by slot, of rows from index `first` on."""
        if payload is None:
            return
        for slot in self._slots[stream]:
            values, at = _values(payload.column(slot.column))
            self._learn(values, codes[slot.slot][at], stream, first + at)

    def forget_unreached(self, lower: Sequence[int]) -> None:
        """Drop the values that no window reaches; lower: by stream, the first index that a window reaches."""
        if len(self) < self._sweep_at:
            return
        count = len(self)
        reached = (self._last[:, :count] >= np.array(lower)[:, None]).any(axis=0)
        kept = np.flatnonzero(reached)
        names = np.fromiter(self._places, object, count)[kept]  # a value's place is its position in this dict
        self._places = dict(zip(names.tolist(), range(len(kept)), strict=True))
        self._numbers, self._last = self._numbers[kept], self._last[:, kept]
        self._sweep_at = max(SWEEP_MIN, 2 * len(kept))

    def _numbers_of(self, values: pa.Array, stream: int, indexes: I64) -> I64:  # P13.1
        distinct, rows = _distinct(values)
        before = len(self)
        places = self._places_of(distinct)
        new = len(self) - before
        self._numbers[before : len(self)] = np.arange(self._next, self._next + new)
        self._next += new
        self._note_last(places, rows, stream, indexes)
        return self._numbers[places][rows]

    def _learn(self, values: pa.Array, codes: I64, stream: int, indexes: I64) -> None:
        distinct, rows = _distinct(values)
        numbers = np.empty(len(distinct), np.int64)
        numbers[rows] = codes
        places = self._places_of(distinct)
        self._numbers[places] = np.maximum(numbers, self._numbers[places])
        self._next = max(self._next, int(numbers.max(initial=-1)) + 1)
        self._note_last(places, rows, stream, indexes)

    def _places_of(self, distinct: list[Any]) -> I64:
        """The places of values, int64 (n,); new values get the next places, in order, and no number yet."""
        places = np.fromiter(map(self._places.get, distinct, repeat(-1)), np.int64, len(distinct))
        new = np.flatnonzero(places < 0)
        if len(new):
            places[new] = np.arange(len(self), len(self) + len(new))
            self._places.update(zip([distinct[k] for k in new.tolist()], places[new].tolist(), strict=True))
            self._make_room()
        return places

    def _make_room(self) -> None:
        more = 2 * len(self) - len(self._numbers)
        if len(self) > len(self._numbers):
            self._numbers = np.concatenate((self._numbers, np.full(more, -1)))
            self._last = np.concatenate((self._last, np.full((len(self._last), more), -1)), axis=1)

    def _note_last(self, places: I64, rows: I64, stream: int, indexes: I64) -> None:
        last = np.empty(len(places), np.int64)
        last[rows] = indexes  # for equal places the last assignment counts
        self._last[stream, places] = np.maximum(self._last[stream, places], last)


def batch_codes(batch: Batch) -> dict[int, I64]:
    """By slot, the codes, int64 (n,), of a batch's tuples in order of arrival."""
    found = {}
    for column in batch.columns:
        codes = np.empty(len(column.codes), np.int64)
        codes[column.order] = column.codes
        found[column.slot] = codes
    return found


def _values(column: pa.Array) -> tuple[pa.Array, I64]:
    """The values of a column without NULLs, which rows that ask may have, and their places, int64 (n,)."""
    if not column.null_count:
        return column, np.arange(len(column), dtype=np.int64)
    return column.drop_null(), np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).astype(np.int64)


def _of_values(column: pa.Array, numbers_of: Callable[[pa.Array, I64], I64]) -> I64:
    """The numbers of a column's values, int64 (n,); 0 for NULL."""
    values, at = _values(column)
    numbers = np.zeros(len(column), np.int64)
    numbers[at] = numbers_of(values, at)
    return numbers


def _distinct(values: pa.Array) -> tuple[list[Any], I64]:
    """The distinct values, and the number of each row's value among them, int64 (n,)."""
    encoded = values if pa.types.is_dictionary(values.type) else pc.dictionary_encode(values)
    return encoded.dictionary.to_numpy(zero_copy_only=False).tolist(), encoded.indices.to_numpy(
        zero_copy_only=False
    ).astype(np.int64)
