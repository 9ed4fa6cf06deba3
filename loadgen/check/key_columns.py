"""Key columns as the nested loop compares them: numbers, with NULLs apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from loadgen.check.rows import is_read_here
from spojoin.model import Domain, KeyColumn, Stream

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class KeyValues:
    """One key column: values (n,), texts still as an Arrow array; nulls bool (n,), where a value says nothing."""

    values: NDArray[Any] | pa.Array
    nulls: NDArray[np.bool_]

    def at(self, rows: I64) -> KeyValues:
        """Those of some rows."""
        kept = self.values.take(pa.array(rows)) if isinstance(self.values, pa.Array) else self.values[rows]
        return KeyValues(kept, self.nulls[rows])


class KeyColumns:
    """The key columns of an input's parsed rows."""

    def __init__(self, source: Stream, table: pa.Table) -> None:
        self._source, self._table = source, table

    def of(self, slot: int) -> KeyValues:
        """The column of a slot. Raises ValueError where it is left to Spark and Spark was not asked."""
        key = self._source.keys[slot]
        if f"k{slot}" not in self._table.column_names:
            raise ValueError(f"the expression {key.text} needs Spark: check the query by `loadgen check`")
        column = self._table[f"k{slot}"].combine_chunks()
        nulls = np.asarray(column.is_null().to_numpy(zero_copy_only=False), np.bool_)
        return KeyValues(_values(column, key), nulls)


def _values(column: pa.Array, key: KeyColumn) -> NDArray[Any] | pa.Array:
    if key.domain is Domain.ASSIGNED:
        return _as_bytes(column)
    if key.domain is Domain.FLOAT:
        return np.asarray(column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False))
    if pa.types.is_decimal(column.type):
        unscaled = [0 if value is None else int(value.scaleb(key.scale)) for value in column.to_pylist()]
        return np.array(unscaled, np.int64)
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    whole = np.asarray(column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))
    return whole if is_read_here(key) else whole * 10**key.scale  # what is read here is scaled already


def _as_bytes(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string()) if pa.types.is_boolean(column.type) else column
    return texts.cast(pa.binary()).fill_null(b"")


def shared_codes(columns: Sequence[Sequence[KeyValues]]) -> list[list[KeyValues]]:
    """The same with a number for each distinct text, in place of the text; equal texts have equal numbers."""
    texts = [each.values for own in columns for each in own if isinstance(each.values, pa.Array)]
    if not texts:
        return [list(own) for own in columns]
    distinct = pc.unique(pa.chunked_array(texts, pa.binary()))
    return [[_coded(each, distinct) for each in own] for own in columns]


def _coded(column: KeyValues, distinct: pa.Array) -> KeyValues:
    if not isinstance(column.values, pa.Array):
        return column
    codes = pc.index_in(column.values, distinct).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return KeyValues(np.asarray(codes), column.nulls)
