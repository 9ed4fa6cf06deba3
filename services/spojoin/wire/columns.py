"""The column part of a record: a directory in the header, followed by arrays that are viewed, never copied.

Every array starts at a multiple of 8 bytes of the body, so that views are aligned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
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
_ASCII_END = 128
_PADDING = tuple(bytes(n) for n in range(ALIGNMENT_BYTES))

_I64, _I32, _U8 = np.dtype("<i8"), np.dtype("<i4"), np.dtype("u1")
_DTYPES: dict[int, np.dtype[Any]] = {
    pb.I64: _I64,
    pb.U32: np.dtype("<u4"),
    pb.U16: np.dtype("<u2"),
    pb.U8: _U8,
    pb.I32: _I32,
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}

if sys.byteorder != "little":
    raise ImportError("spojoin's wire format views little-endian columns in place; this machine is big-endian")


def padding(size: int) -> bytes:
    """The zero bytes that pad `size` to a multiple of 8."""
    return _PADDING[-size % ALIGNMENT_BYTES]


def _memory(buffer: pa.Buffer | None) -> memoryview:
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

    def array(self, values: NDArray[Any], dtype: np.dtype[Any]) -> None:
        """Append a one-dimensional array of exactly this dtype."""
        # NumPy compares two types of elements slowly, and has each plain one once.
        if (values.dtype is not dtype and values.dtype != dtype) or values.ndim != 1:
            raise WireError(f"a column has dtype {values.dtype} and shape {values.shape}, expected {dtype.name} (n,)")
        if not values.flags.c_contiguous:
            values = np.ascontiguousarray(values)
        self._append(_CODES[dtype], len(values), values.data, values.nbytes)

    def optional(self, values: NDArray[Any] | None, dtype: np.dtype[Any]) -> None:
        """Append an array, or mark it as absent."""
        if values is None:
            self._directory.add(dtype=pb.ABSENT, count=0, offset=self.size)
        else:
            self.array(values, dtype)

    def keys(self, keys: Keys | None) -> None:
        """Append an Arrow int64 or string array without nulls: one column of int64, or offsets and UTF-8 bytes."""
        if keys is None:
            self.optional(None, _I64)
        elif keys.null_count:
            raise WireError(f"keys hold {keys.null_count} nulls; rows without a key must be refused before")
        elif keys.type == pa.int64():
            self.array(keys.to_numpy(), _I64)
        elif keys.type == pa.string():
            self._strings(keys)
        else:
            raise WireError(f"keys are {keys.type}, expected int64 or string")

    def rows(self, rows: pa.RecordBatch) -> None:
        """Append a record batch as a whole Arrow IPC stream."""
        self._bytes(_memory(ipc_bytes(rows)))

    def _bytes(self, data: memoryview) -> None:
        self._append(pb.U8, data.nbytes, data, data.nbytes)

    def _strings(self, keys: Keys) -> None:
        _, offsets_buffer, data = keys.buffers()
        if not len(keys) or offsets_buffer is None:
            self.array(np.zeros(len(keys) + 1, np.int32), _I32)
            self._bytes(memoryview(b""))
            return
        offsets = np.frombuffer(_memory(offsets_buffer), np.int32, len(keys) + 1, keys.offset * 4)
        self.array(offsets - offsets[0] if offsets[0] else offsets, _I32)
        self._bytes(_memory(data)[offsets[0] : offsets[-1]])

    def _append(self, code: int, count: int, data: memoryview, size: int) -> None:
        self._directory.add(dtype=code, count=count, offset=self.size)
        pad = padding(size)
        self.chunks += (data, pad) if pad else (data,)
        self.size += size + len(pad)


class ColumnReader:
    """Returns views of the arrays in the order in which they were written."""

    def __init__(self, directory: Directory, body: memoryview, name: str) -> None:
        """`body` is exactly the padded arrays; `name` names the record in errors."""
        self.left = len(directory)
        self._entries = iter(directory)
        self._body = body
        self._position = 0
        self._name = name

    def array(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The next column, which must be present with this dtype."""
        return self._view(self._next(), dtype)

    def optional(self, dtype: np.dtype[Any]) -> NDArray[Any] | None:
        """The next column, or None if it is marked absent."""
        entry = self._next()
        return None if entry.dtype == pb.ABSENT else self._view(entry, dtype)

    def keys(self) -> Keys | None:
        """The next keys: an Arrow int64 or string array over the message's bytes, or None."""
        entry = self._next()
        read = self._key_readers.get(entry.dtype)
        if read is None:
            raise self._fault(f"keys have dtype code {entry.dtype}, expected I64, I32 (string offsets) or ABSENT")
        return read(self, entry)

    def rows(self) -> pa.RecordBatch:
        """The next column, an Arrow IPC stream of one record batch."""
        return ipc_batch(self.array(_U8).data)

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
        found = _DTYPES.get(entry.dtype)
        if found is not dtype and found != dtype:
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
        return _arrow(pa.int64(), entry.count, self._view(entry, _I64))

    def _string_keys(self, entry: pb.Column) -> Keys:
        offsets, data = self._view(entry, _I32), self.array(_U8)
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(data) or (offsets[1:] < offsets[:-1]).any():
            raise self._fault(f"string offsets do not rise from 0 to the {len(data)} bytes of the strings")
        keys = _arrow(pa.string(), len(offsets) - 1, offsets, data)
        if not len(data) or data.max() < _ASCII_END:  # checking key by key takes longer
            return keys
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


#: The keys of zero rows.
NO_KEYS: Keys = pa.nulls(0, pa.int64())


def concat_keys(pieces: Sequence[Keys]) -> Keys:
    """All keys in order: int64 if every piece with rows is int64, otherwise string."""
    filled = [piece for piece in pieces if len(piece)]
    if len(filled) < 2:
        return filled[0] if filled else NO_KEYS
    if len({piece.type for piece in filled}) > 1:
        filled = [piece.cast(pa.string()) for piece in filled]
    return pa.concat_arrays(filled)


def ipc_bytes(rows: pa.RecordBatch) -> pa.Buffer:
    """A record batch as a whole Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue()


def ipc_batch(data: bytes | memoryview) -> pa.RecordBatch:
    """The one record batch of an Arrow IPC stream, over the same bytes; WireError unless there is exactly one.

    Arrow itself accepts offsets outside the bytes, and texts and names that aren't UTF-8: readers would fail on them
    later, or crash.
    """
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            batches = list(reader)
        for batch in batches:
            batch.validate(full=True)
            _ = batch.schema.names
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise WireError(f"the rows of a result are no Arrow IPC stream: {error}") from error
    if len(batches) != 1:
        raise WireError(f"the rows of a result hold {len(batches)} Arrow record batches, expected 1")
    return batches[0]
