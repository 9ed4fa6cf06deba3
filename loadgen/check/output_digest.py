r"""A line that stands for an output or a part of it, to compare a run with another run or with the definition.

Of a count output: SHA-256 of the text `<seq> <key> <as left> <as right>\n`, a line a tuple in the order of the results;
of a cross join `<seq> <key> <matches>\n`. Of rows: SHA-256 of names, types and values, column by column.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spojoin.arrays import I64
from spojoin.model import Query


def reported_sha256(query: Query, rows: pa.Table) -> str:
    """The digest of the rows of a count output, in their order."""
    if rows.num_rows == 0:
        return _sha256(())
    counts = ("as_left", "as_right") if query.is_of_one_input else ("matches",)
    return _sha256(zip(*(rows[name].to_pylist() for name in ("seq", "key", *counts)), strict=True))


def expected_sha256(query: Query, keys: Sequence[Any], by_role: I64) -> str:
    """Of the expected output. keys: of all tuples in order; by_role: int64 (2, n), counts as left and right."""
    counts = by_role if query.is_of_one_input else by_role.sum(axis=0, keepdims=True)
    return _sha256(zip(range(len(keys)), keys, *counts.tolist(), strict=True))


def _sha256(rows: Iterable[tuple[Any, ...]]) -> str:
    sha = hashlib.sha256()
    for row in rows:
        sha.update((" ".join(map(str, row)) + "\n").encode())
    return sha.hexdigest()


def rows_sha256(rows: pa.Table) -> str:
    """The digest of rows' names, types and values, in order and regardless of batches."""
    sha = hashlib.sha256()
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        values = plain(column)
        sha.update(f"{name} {values.type} {len(values)}\n".encode())
        nulls = np.asarray(values.is_null().to_numpy(zero_copy_only=False), np.bool_)
        sha.update(np.packbits(nulls).tobytes())
        for part in _bytes(values):
            sha.update(part)
    return sha.hexdigest()


def plain(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, without dictionary."""
    whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return whole.dictionary_decode() if pa.types.is_dictionary(whole.type) else whole


def _bytes(values: pa.Array) -> Iterator[bytes | memoryview]:
    """The buffers of the values, which don't depend on the memory behind NULLs."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        texts = values.cast(pa.binary()).fill_null(b"")
        yield pc.binary_length(texts).to_numpy(zero_copy_only=False).tobytes()
        yield _joined(texts)
        return
    width = {32: pa.int32(), 64: pa.int64()}.get(values.type.bit_width)
    whole = values if pa.types.is_floating(values.type) or width is None else values.view(width)
    yield whole.fill_null(0).to_numpy(zero_copy_only=False).tobytes()


def _joined(texts: pa.Array) -> memoryview:
    """All texts of a binary array without NULL, one after the other, as Arrow stores them."""
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return memoryview(b"")
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return memoryview(data)[ends[0] : ends[-1]]
