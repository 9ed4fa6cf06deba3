"""Numbers for values that only equality compares: texts, bytes.

A value keeps its number as long as a window can reach a row that has it. The numbers are in the log, the values travel
beside them as payload, so a router that starts again learns from frames and batches what the values are called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spojoin.model import Query
from spojoin.query.payload import AssignedSlot, assigned_slots
from spojoin.wire.records import I64, Batch

#: Values that are kept beyond what windows reach before the first sweep; a sweep looks at all of them.
SWEEP_MIN = 1 << 16


class Names:
    """The numbers of all values that some window reaches, shared by both sides of every equality."""

    def __init__(self, query: Query) -> None:
        self._slots: list[Sequence[AssignedSlot]] = [assigned_slots(stream) for stream in query.streams]
        self._numbers: dict[Any, int] = {}
        #: by number's value: the stream and index of the last row that has it, for each stream
        self._last: dict[Any, list[int]] = {}
        self._streams = len(query.streams)
        self._next = 0
        self._a_tuple = sum(map(len, self._slots))
        self._sweep_at = SWEEP_MIN

    @property
    def is_needed(self) -> bool:
        """Whether the query compares such values at all."""
        return any(self._slots)

    def __len__(self) -> int:
        return len(self._numbers)

    def begin(self, first_seq: int) -> None:
        """Numbers of the frame that begins at `first_seq` are above those of all frames before it.

        So of two numbers that the log has for one value, forgotten and met again, the greater is the one that counts.
        """
        self._next = max(self._next, first_seq * self._a_tuple)

    def numbered(
        self, stream: int, codes: tuple[I64, ...], payload: pa.RecordBatch | None, first: int
    ) -> tuple[I64, ...]:
        """The codes int64 (n,) of rows from index `first` on, with those of texts and bytes filled in."""
        if not self._slots[stream] or payload is None:
            return codes
        filled = list(codes)
        for slot in self._slots[stream]:
            filled[slot.slot] = self._numbers_of(payload.column(slot.column), stream, first)
        return tuple(filled)

    def learn(
        self, stream: int, codes: Mapping[int, I64] | Sequence[I64], payload: pa.RecordBatch | None, first: int
    ) -> None:
        """Take over numbers that are in the log; codes: int64 (n,) by slot, of rows from index `first` on."""
        if payload is None:
            return
        for slot in self._slots[stream]:
            self._learn(payload.column(slot.column), codes[slot.slot], stream, first)

    def forget(self, lower: Sequence[int]) -> None:
        """Drop the values that no window reaches; lower: by stream, the first index that one does."""
        if len(self._numbers) < self._sweep_at:
            return
        gone = [value for value, last in self._last.items() if all(i < low for i, low in zip(last, lower, strict=True))]
        for value in gone:
            del self._numbers[value], self._last[value]
        self._sweep_at = max(SWEEP_MIN, 2 * len(self._numbers))

    def _numbers_of(self, values: pa.Array, stream: int, first: int) -> I64:
        distinct, places = _distinct(values)
        numbers = np.empty(len(distinct), np.int64)
        for k, value in enumerate(distinct):
            numbers[k] = self._number(value)
        self._note_last(distinct, places, stream, first)
        return numbers[places]

    def _number(self, value: Any) -> int:  # noqa: ANN401  (text or bytes)
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = self._next
            self._next += 1
        return number

    def _learn(self, values: pa.Array, codes: I64, stream: int, first: int) -> None:
        distinct, places = _distinct(values)
        numbers = np.empty(len(distinct), np.int64)
        numbers[places] = codes
        for value, number in zip(distinct, numbers.tolist(), strict=True):
            self._numbers[value] = max(number, self._numbers.get(value, -1))
        self._next = max(self._next, int(numbers.max(initial=-1)) + 1)
        self._note_last(distinct, places, stream, first)

    def _note_last(self, distinct: list[Any], places: I64, stream: int, first: int) -> None:
        last = np.empty(len(distinct), np.int64)
        last[places] = np.arange(first, first + len(places))  # of equal places the last assignment stands
        for value, index in zip(distinct, last.tolist(), strict=True):
            known = self._last.setdefault(value, [-1] * self._streams)
            known[stream] = max(known[stream], index)


def batch_codes(batch: Batch) -> dict[int, I64]:
    """The codes int64 (n,) of a batch's tuples in order of arrival, by slot."""
    found = {}
    for column in batch.columns:
        codes = np.empty(len(column.codes), np.int64)
        codes[column.order] = column.codes
        found[column.slot] = codes
    return found


def _distinct(values: pa.Array) -> tuple[list[Any], I64]:
    """The distinct values, and of each row which it has, int64 (n,)."""
    encoded = values if pa.types.is_dictionary(values.type) else pc.dictionary_encode(values)
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
