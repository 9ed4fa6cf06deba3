"""The column part of a record: a directory in the header, and arrays behind it that are viewed, never copied.

Every array starts at a multiple of 8 bytes, so that a view of it is aligned wherever the body is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from numpy.typing import NDArray

from spojoin.errors import WireError
from spojoin.wire._generated import spojoin_pb2 as pb

Directory = RepeatedCompositeFieldContainer[pb.Column]
Keys: TypeAlias = "pa.Array[Any]"

ALIGNMENT_BYTES = 8
_PADDING = tuple(bytes(n) for n in range(ALIGNMENT_BYTES))

_DTYPES: dict[int, np.dtype[Any]] = {
    pb.I64: np.dtype("<i8"),
    pb.U32: np.dtype("<u4"),
    pb.U16: np.dtype("<u2"),
    pb.U8: np.dtype("u1"),
    pb.I32: np.dtype("<i4"),
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}

if sys.byteorder != "little":
    raise ImportError("spojoin's wire format views little-endian columns in place; this machine is big-endian")


def padding(size: int) -> bytes:
    """The zero bytes that pad `size` to a multiple of 8."""
    return _PADDING[-size % ALIGNMENT_BYTES]


def memory(buffer: pa.Buffer | None) -> memoryview:
    """The bytes of an Arrow buffer; empty if Arrow keeps no buffer."""
    return memoryview(b"" if buffer is None else buffer)


class ColumnWriter:
    """Collects a record's arrays: `chunks` is the body piece by piece, `directory` its description."""

    def __init__(self, directory: Directory) -> None:
        """`directory` is the envelope's repeated `columns` field."""
        self.chunks: list[bytes | memoryview] = []
        self.size = 0
        self._directory = directory

    @property
    def count(self) -> int:
        """Columns appended so far."""
        return len(self._directory)

    def array(self, values: NDArray[Any], dtype: type[np.generic]) -> None:
        """Append a one-dimensional array of exactly that dtype."""
        if values.dtype != dtype or values.ndim != 1:
            raise WireError(
                f"a column has dtype {values.dtype} and shape {values.shape}, expected {dtype.__name__} (n,)"
            )
        self._append(_CODES[values.dtype], len(values), np.ascontiguousarray(values).data, values.nbytes)

    def optional(self, values: NDArray[Any] | None, dtype: type[np.generic]) -> None:
        """Append an array, or note that there is none."""
        if values is None:
            self._directory.add(dtype=pb.ABSENT, count=0, offset=self.size)
        else:
            self.array(values, dtype)

    def keys(self, keys: Keys | None) -> None:
        """Append an Arrow int64 or string array without nulls: one column of int64, or offsets and UTF-8 bytes."""
        if keys is None:
            self.optional(None, np.int64)
        elif keys.null_count:
            raise WireError(f"keys hold {keys.null_count} nulls; rows without a key must be refused before")
        elif keys.type == pa.int64():
            self.array(keys.to_numpy(), np.int64)
        elif keys.type == pa.string():
            self._strings(keys)
        else:
            raise WireError(f"keys are {keys.type}, expected int64 or string")

    def buffer(self, data: memoryview) -> None:
        """Append bytes."""
        self._append(pb.U8, data.nbytes, data, data.nbytes)

    def _strings(self, keys: Keys) -> None:
        _, offsets_buffer, data = keys.buffers()
        if not len(keys) or offsets_buffer is None:
            self.array(np.zeros(len(keys) + 1, np.int32), np.int32)
            self.buffer(memoryview(b""))
            return
        offsets = np.frombuffer(memory(offsets_buffer), np.int32, len(keys) + 1, keys.offset * 4)
        self.array(offsets - offsets[0] if offsets[0] else offsets, np.int32)
        self.buffer(memory(data)[offsets[0] : offsets[-1]])

    def _append(self, code: int, count: int, data: memoryview, size: int) -> None:
        self._directory.add(dtype=code, count=count, offset=self.size)
        pad = padding(size)
        self.chunks += (data, pad) if pad else (data,)
        self.size += size + len(pad)


class ColumnReader:
    """Returns views of the arrays in the order in which they were written."""

    def __init__(self, directory: Directory, body: memoryview, name: str) -> None:
        """`body` is exactly the padded arrays; `name` is the record's in errors; `left`: columns not yet taken."""
        self.left = len(directory)
        self._entries = iter(directory)
        self._body = body
        self._position = 0
        self._name = name

    def array(self, dtype: type[np.generic]) -> NDArray[Any]:
        """The next column, which must be present with that dtype."""
        return self._view(self._next(), np.dtype(dtype))

    def optional(self, dtype: type[np.generic]) -> NDArray[Any] | None:
        """The next column, or None if it is marked absent."""
        entry = self._next()
        return None if entry.dtype == pb.ABSENT else self._view(entry, np.dtype(dtype))

    def keys(self) -> Keys | None:
        """The next keys: an Arrow int64 or string array over the message's bytes, or None."""
        entry = self._next()
        read = self._key_readers.get(entry.dtype)
        if read is None:
            raise self._fault(f"keys have dtype code {entry.dtype}, expected I64, I32 (string offsets) or ABSENT")
        return read(self, entry)

    def present_keys(self) -> Keys:
        """The next keys, which must be present."""
        keys = self.keys()
        if keys is None:
            raise self._fault("keys are absent")
        return keys

    def buffer(self) -> memoryview:
        """The next column's bytes."""
        return self.array(np.uint8).data

    def finish(self) -> None:
        """Check that every column and every byte was taken."""
        if next(self._entries, None) is not None:
            raise self._fault("more columns follow than its header calls for")
        if self._position != len(self._body):
            raise self._fault(f"columns end at byte {self._position}, the body at {len(self._body)}")

    def _next(self) -> pb.Column:
        entry = next(self._entries, None)
        if entry is None:
            raise self._fault("the column directory ends before the columns that its header calls for")
        if entry.offset != self._position:
            raise self._fault(f"a column claims offset {entry.offset}, expected {self._position}")
        self.left -= 1
        return entry

    def _view(self, entry: pb.Column, dtype: np.dtype[Any]) -> NDArray[Any]:
        if _DTYPES.get(entry.dtype) != dtype:
            raise self._fault(f"a column has dtype code {entry.dtype}, expected {dtype.name}")
        size = entry.count * dtype.itemsize
        end = entry.offset + size + -size % ALIGNMENT_BYTES
        if end > len(self._body):
            raise self._fault(
                f"a column of {entry.count} x {dtype.name} at {entry.offset} passes the body's {len(self._body)} bytes"
            )
        self._position = end
        return np.frombuffer(self._body, dtype, entry.count, entry.offset) if entry.count else np.empty(0, dtype)

    def _int_keys(self, entry: pb.Column) -> Keys:
        return _arrow(pa.int64(), entry.count, self._view(entry, _DTYPES[pb.I64]))

    def _string_keys(self, entry: pb.Column) -> Keys:
        offsets, data = self._view(entry, _DTYPES[pb.I32]), self.array(np.uint8)
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(data) or (offsets[1:] < offsets[:-1]).any():
            raise self._fault(f"string offsets do not rise from 0 to the {len(data)} bytes of the strings")
        keys = _arrow(pa.string(), len(offsets) - 1, offsets, data)
        try:
            keys.validate(full=True)
        except pa.ArrowInvalid as error:
            raise self._fault(f"keys are no UTF-8: {error}") from error
        return keys

    def _no_keys(self, entry: pb.Column) -> None:
        return None

    def _fault(self, text: str) -> WireError:
        return WireError(f"{self._name} record: {text}")

    _key_readers: ClassVar[dict[int, Callable[[ColumnReader, pb.Column], Keys | None]]] = {
        pb.I64: _int_keys,
        pb.I32: _string_keys,
        pb.ABSENT: _no_keys,
    }


def _arrow(kind: pa.DataType, count: int, *arrays: NDArray[Any]) -> Keys:
    return pa.Array.from_buffers(kind, count, [None, *(pa.py_buffer(array.data) for array in arrays)])
