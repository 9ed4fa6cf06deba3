"""One payload column of the rows that windows reach, taken by place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.kernels.tail import Tail
from spojoin.wire.records import I64

#: NumPy types whose values have as many bytes as Arrow's; only copied, never computed with.
_AS_BYTES: dict[int, type[np.generic]] = {8: np.uint8, 16: np.uint16, 32: np.int32, 64: np.int64, 128: np.complex128}
#: The recent texts are appended to the others once they are more than one in so many.
_RECENT_ONE_IN = 4


class ColumnStore(ABC):
    """Values of indexes [first, end) of a stream."""

    @abstractmethod
    def append(self, values: pa.Array) -> None:
        """Add values behind the last one."""

    @abstractmethod
    def take(self, places: I64) -> pa.Array:
        """Values by place, int64 (n,): the index less the first one held."""

    @abstractmethod
    def all(self) -> pa.Array:
        """Every value held."""

    @abstractmethod
    def drop_below(self, index: int) -> None:
        """Forget the values of smaller indexes."""


def column_store(kind: pa.DataType, first: int) -> ColumnStore:
    """An empty store of values of a type, whose first index is `first`."""
    if pa.types.is_primitive(kind) or pa.types.is_decimal128(kind):
        return FixedColumn(kind, first)
    return TextColumn(kind, first)


class FixedColumn(ColumnStore):
    """Values of a fixed number of bytes, in one buffer."""

    def __init__(self, kind: pa.DataType, first: int) -> None:
        self._kind = kind
        self._is_bool = pa.types.is_boolean(kind)
        dtype = np.uint8 if self._is_bool else _AS_BYTES[kind.bit_width]
        self._values = Tail(first, dtype=dtype)
        self._valid: Tail | None = None

    def append(self, values: pa.Array) -> None:
        """Add values behind the last one."""
        if values.null_count and self._valid is None:
            self._valid = Tail(self._values.first, dtype=np.bool_)
            self._valid.append(np.ones(len(self._values), np.bool_))
        if self._valid is not None:
            self._valid.append(np.asarray(values.is_valid().to_numpy(zero_copy_only=False)))
        self._values.append(self._numbers(values))

    def take(self, places: I64) -> pa.Array:
        """Values by place."""
        held = self._values.held
        buffer = pa.allocate_buffer(len(places) * held.itemsize)
        taken = np.frombuffer(buffer, held.dtype)
        np.take(held, places, out=taken, mode="clip")
        valid = None if self._valid is None else np.take(self._valid.held, places)
        return self._array(taken, buffer, valid)

    def all(self) -> pa.Array:
        """Every value held."""
        return self.take(np.arange(len(self._values)))

    def drop_below(self, index: int) -> None:
        """Forget the values of smaller indexes."""
        self._values.drop_below(index)
        if self._valid is not None:
            self._valid.drop_below(index)

    def _numbers(self, values: pa.Array) -> NDArray[Any]:
        if self._is_bool:
            return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False), np.uint8)
        data = values.buffers()[1]
        size = self._values.buffer.itemsize
        if data is None or not len(values):
            return np.zeros(len(values), self._values.buffer.dtype)
        return np.frombuffer(data, self._values.buffer.dtype, len(values), values.offset * size)

    def _array(self, taken: NDArray[Any], buffer: pa.Buffer, valid: NDArray[np.bool_] | None) -> pa.Array:
        if self._is_bool:
            return pa.array(taken.view(np.bool_), mask=None if valid is None else ~valid)
        bits = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        return pa.Array.from_buffers(self._kind, len(taken), [bits, buffer])


class TextColumn(ColumnStore):
    """Values of any length: all but the recent ones in one array."""

    def __init__(self, kind: pa.DataType, first: int) -> None:
        self._first = first
        self._whole = pa.array([], kind)
        self._recent: list[pa.Array] = []
        self._recent_rows = 0

    def append(self, values: pa.Array) -> None:
        """Add values behind the last one."""
        self._recent.append(values)
        self._recent_rows += len(values)
        if _RECENT_ONE_IN * self._recent_rows > len(self._whole):
            self._join()

    def take(self, places: I64) -> pa.Array:
        """Values by place; recent ones are taken apart, and put between the others."""
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

    def all(self) -> pa.Array:
        """Every value held."""
        return pa.concat_arrays([self._whole, *self._recent])

    def drop_below(self, index: int) -> None:
        """Forget the values of smaller indexes."""
        if index > self._first + len(self._whole):
            self._join()
        count = min(max(index - self._first, 0), len(self._whole))
        self._whole = self._whole.slice(count)
        self._first += count

    def _join(self) -> None:
        self._whole = self.all()
        self._recent, self._recent_rows = [], 0
