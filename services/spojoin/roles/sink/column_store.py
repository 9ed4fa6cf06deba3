"""Columns in Arrow's memory, written in place: the payload of rows that windows reach, and results.

Arrow's memory pool keeps the pages of freed memory. NumPy gets new memory from the system for each large array, and
mapping its pages costs several times as much as filling them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.arrays import I64
from spojoin.errors import BadData
from spojoin.kernels.segments import gather, gather_bits
from spojoin.kernels.tail import Tail
from spojoin.kernels.texts import WORD, gather_texts, text_places

#: NumPy types whose values have as many bytes as Arrow's; they are only used for copying.
_AS_BYTES: dict[int, type[np.generic]] = {8: np.uint8, 16: np.uint16, 32: np.int32, 64: np.int64, 128: np.complex128}
#: Recent values of other types are merged with the older ones once they are more than one in this many.
_RECENT_ONE_IN = 4
#: Buffers are this many times as large as their content: windows are large, and occasional copying is cheap.
GROWTH = 1.2
#: Arrow's offsets of a column's texts have 31 bits.
_TEXT_BYTES_MAX = (1 << 31) - 1

_tail = partial(Tail, growth=GROWTH)


class ColumnStore(ABC):
    """Values of indexes [first, end) of a stream."""

    @abstractmethod
    def append_values(self, values: pa.Array) -> None:
        """Add values behind the last one."""

    @abstractmethod
    def values_at(self, places: I64, first: int = 0) -> pa.Array:
        """Values by place, int64 (n,): a place is the index, less the first held index, plus `first`."""

    @abstractmethod
    def drop_below(self, index: int) -> None:
        """Forget the values of smaller indexes."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of all buffers, room included."""


def column_store(kind: pa.DataType, first: int) -> ColumnStore:
    """An empty store for values of a type; `first`: its first index."""
    if pa.types.is_primitive(kind) or pa.types.is_decimal128(kind):
        return FixedColumn(kind, first)
    return TextColumn(kind, first) if kind in (pa.string(), pa.binary()) else OtherColumn(kind, first)


class Validity:
    """Which values are not NULL, kept from the first NULL on."""

    def __init__(self) -> None:
        self._flags: Tail | None = None

    def append_flags(self, values: pa.Array, held: int, first: int) -> None:
        """Add the flags of values that follow `held` others; first: the index of the first of those."""
        if values.null_count and self._flags is None:
            self._flags = _tail(first, dtype=np.uint8)
            self._flags.append(np.ones(held, np.uint8))
        if self._flags is not None:
            self._flags.append(np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.uint8))

    def flags_at(self, places: I64, first: int) -> pa.Buffer | None:
        """Arrow's validity of values by place; None if all are valid."""
        if self._flags is None:
            return None
        bits, zeros = _bits(self._flags.held.view(np.uint8), places, first)
        return bits if zeros else None

    def drop_below(self, index: int) -> None:
        if self._flags is not None:
            self._flags.drop_below(index)

    @property
    def nbytes(self) -> int:
        """Bytes of the flags, spare room included."""
        return 0 if self._flags is None else self._flags.buffer.nbytes


class FixedColumn(ColumnStore):
    """Values of a fixed number of bytes, in one buffer; booleans take a byte each."""

    def __init__(self, kind: pa.DataType, first: int) -> None:
        self._kind = kind
        self._is_bool = pa.types.is_boolean(kind)
        self._values = _tail(first, dtype=np.uint8 if self._is_bool else _AS_BYTES[kind.bit_width])
        self._valid = Validity()

    def append_values(self, values: pa.Array) -> None:
        """Add values behind the last one."""
        self._valid.append_flags(values, len(self._values), self._values.first)
        self._values.append(self._numbers(values))

    def values_at(self, places: I64, first: int = 0) -> pa.Array:
        return pa.Array.from_buffers(
            self._kind, len(places), [self._valid.flags_at(places, first), self._taken(places, first)]
        )

    def drop_below(self, index: int) -> None:
        """Forget the values of smaller indexes."""
        self._values.drop_below(index)
        self._valid.drop_below(index)

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return self._values.buffer.nbytes + self._valid.nbytes

    def _numbers(self, values: pa.Array) -> NDArray[Any]:
        if self._is_bool:
            return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False), np.uint8)
        data = values.buffers()[1]
        size = self._values.buffer.itemsize
        if data is None or not len(values):
            return np.zeros(len(values), self._values.buffer.dtype)
        return np.frombuffer(data, self._values.buffer.dtype, len(values), values.offset * size)

    def _taken(self, places: I64, first: int) -> pa.Buffer:
        held = self._values.held
        if self._is_bool:
            return _bits(held.view(np.uint8), places, first)[0]
        taken, buffer = _room(len(places), held.dtype)
        gather(held, places, first, taken)
        return buffer


class TextColumn(ColumnStore):
    """Texts or bytes: the offset of each, and all bytes in one buffer."""

    def __init__(self, kind: pa.DataType, first: int) -> None:
        self._kind = kind
        self._starts = _tail(first)
        self._starts.append(np.zeros(1, np.int64))
        self._bytes = _tail(dtype=np.uint8)
        self._valid = Validity()

    def append_values(self, values: pa.Array) -> None:
        """Add values behind the last one."""
        if not len(values):
            return
        self._valid.append_flags(values, len(self._starts) - 1, self._starts.first)
        _, offsets, data = values.buffers()
        ends = np.frombuffer(offsets, np.int32, len(values) + 1, 4 * values.offset).astype(np.int64)
        if data is not None:
            own: NDArray[Any] = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
            self._bytes.append(own)
        self._starts.append(ends[1:] + (self._starts.held[-1] - ends[0]))

    def values_at(self, places: I64, first: int = 0) -> pa.Array:
        """Values by place. Raises BadData where their bytes are more than a column holds."""
        starts, count = self._starts.held, len(places)
        (begins, _), (offsets, ends) = _room(count, np.int64), _room(count + 1, np.int32)
        size = text_places(starts, places, first, begins, offsets)
        if size > _TEXT_BYTES_MAX:
            raise BadData(f"{count:,} results have {size:,} bytes of text in one column, more than Arrow holds at once")
        taken, buffer = _room(size + WORD, np.uint8)
        gather_texts(self._bytes.buffer.view(np.uint8), self._bytes.origin, begins, offsets, taken)
        return pa.Array.from_buffers(
            self._kind, count, [self._valid.flags_at(places, first), ends, buffer.slice(0, size)]
        )

    def drop_below(self, index: int) -> None:
        """Forget the values of smaller indexes."""
        self._starts.drop_below(min(index, self._starts.end - 1))
        self._bytes.drop_below(int(self._starts.held[0]))
        self._valid.drop_below(index)

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return self._starts.buffer.nbytes + self._bytes.buffer.nbytes + self._valid.nbytes


class OtherColumn(ColumnStore):
    """Values of any type, such as maps: older ones in one array, recent ones in pieces."""

    def __init__(self, kind: pa.DataType, first: int) -> None:
        self._first = first
        self._whole = pa.array([], kind)
        self._recent: list[pa.Array] = []
        self._recent_rows = 0

    def append_values(self, values: pa.Array) -> None:
        """Add values behind the last one."""
        self._recent.append(values)
        self._recent_rows += len(values)
        if _RECENT_ONE_IN * self._recent_rows > len(self._whole):
            self._join()

    def values_at(self, places: I64, first: int = 0) -> pa.Array:
        """Values by place; recent and older values are gathered separately, then put in order."""
        places = places - first
        is_recent = places >= len(self._whole)
        if not is_recent.any():
            return self._whole.take(pa.array(places))
        recent = pa.concat_arrays(self._recent).take(pa.array(places[is_recent] - len(self._whole)))
        if is_recent.all():
            return recent
        both = pa.concat_arrays([self._whole.take(pa.array(places[~is_recent])), recent])
        order = np.empty(len(places), np.int64)
        order[np.concatenate((np.flatnonzero(~is_recent), np.flatnonzero(is_recent)))] = np.arange(len(places))
        return both.take(pa.array(order))

    def drop_below(self, index: int) -> None:
        """Forget the values of smaller indexes."""
        if index > self._first + len(self._whole):
            self._join()
        count = min(max(index - self._first, 0), len(self._whole))
        self._whole = self._whole.slice(count)
        self._first += count

    @property
    def nbytes(self) -> int:
        """Bytes of the held values."""
        return int(self._whole.nbytes + sum(each.nbytes for each in self._recent))

    def _join(self) -> None:
        self._whole = pa.concat_arrays([self._whole, *self._recent])
        self._recent, self._recent_rows = [], 0


def _bits(flags: NDArray[np.uint8], places: I64, first: int) -> tuple[pa.Buffer, int]:
    """Flags by place as Arrow's bits, and how many of them are 0."""
    bits, buffer = _room(-(-len(places) // 8), np.uint8)
    return buffer, gather_bits(flags, places, first, bits)


def _room(n: int, dtype: type[np.generic] | np.dtype[Any]) -> tuple[NDArray[Any], pa.Buffer]:
    """Allocate n values to be written, and the Arrow buffer that holds them."""
    buffer = pa.allocate_buffer(n * np.dtype(dtype).itemsize)
    return np.frombuffer(buffer, dtype), buffer


def int64_column(n: int) -> tuple[I64, pa.Array]:
    """Allocate n values to be written, and the Arrow array that holds them."""
    buffer = pa.allocate_buffer(n * 8)
    return np.frombuffer(buffer, np.int64), pa.Array.from_buffers(pa.int64(), n, [None, buffer])


def held_in(values: I64) -> list[pa.Array]:
    """The rows of a contiguous int64 (k, n) as Arrow arrays over the same memory, without checks, which cost more."""
    memory, (k, n) = pa.py_buffer(values), values.shape
    return [pa.Array.from_buffers(pa.int64(), n, [None, memory], offset=row * n) for row in range(k)]
