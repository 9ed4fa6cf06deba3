"""Functions of record batches: join several, take some rows of one, and keep the last rows of a stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}

#: How many rows are kept at least. A row is refused when its frame closes, some thousand rows later. If another
#: stream must catch up first, that may take longer, and the row's values are gone.
KEPT_ROWS = 1 << 17


def one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Batches joined into one; without any, an empty batch of `schema`."""
    tables = [pa.Table.from_batches([batch]) for batch in batches] or [schema.empty_table()]
    table = pa.concat_tables(_with_common_types(tables), promote_options="default").combine_chunks()
    found = table.to_batches()
    return (
        found[0]
        if found
        else pa.RecordBatch.from_arrays([pa.array([], f.type) for f in table.schema], schema=table.schema)
    )


def rows_at(batch: pa.RecordBatch, places: pa.Array) -> pa.RecordBatch:
    """The rows at some places of a batch. Views of text and bytes become plain arrays, for which Arrow can do this."""
    plain = pa.schema([field.with_type(_PLAIN.get(field.type, field.type)) for field in batch.schema])
    return (batch if plain.equals(batch.schema) else batch.cast(plain)).take(places)


def _with_common_types(tables: Sequence[pa.Table]) -> Sequence[pa.Table]:
    """The tables, with columns of differing types as text: Arrow infers types for each block of a JSON file."""
    kinds: dict[str, set[pa.DataType]] = {}
    for field in (field for table in tables for field in table.schema if not pa.types.is_null(field.type)):
        kinds.setdefault(field.name, set()).add(field.type)
    mixed = {name for name, found in kinds.items() if len(found) > 1}
    if not mixed:
        return tables
    texts = [[(f.name, pa.string() if f.name in mixed else f.type) for f in table.schema] for table in tables]
    return [table.cast(pa.schema(fields)) for table, fields in zip(tables, texts, strict=True)]


class RecentRows:
    """Keeps the last rows of a stream, at least KEPT_ROWS, and gives them by position."""

    def __init__(self) -> None:
        self._batches: deque[pa.RecordBatch] = deque()
        self._end = 0
        self._kept_rows = 0

    def keep(self, batch: pa.RecordBatch) -> None:
        """Keep further rows, and drop the oldest batches."""
        self._batches.append(batch)
        self._end += batch.num_rows
        self._kept_rows += batch.num_rows
        while self._kept_rows - self._batches[0].num_rows >= KEPT_ROWS:
            self._kept_rows -= self._batches.popleft().num_rows

    def values_at(self, positions: Iterable[int]) -> dict[int, Mapping[str, object]]:
        """The values, by column, of the rows at these positions that are still kept."""
        wanted = np.unique(np.fromiter(positions, np.int64))
        found: dict[int, Mapping[str, object]] = {}
        begin = self._end - self._kept_rows
        for batch in self._batches if len(wanted) else ():
            here = wanted[(wanted >= begin) & (wanted < begin + batch.num_rows)]
            if len(here):
                found.update(zip(here.tolist(), _values(rows_at(batch, pa.array(here - begin))), strict=True))
            begin += batch.num_rows
        return found


def _values(batch: pa.RecordBatch) -> list[Mapping[str, object]]:
    """Rows as dicts; times with nanoseconds are text, since Python's times have none."""
    columns = [
        column.cast(pa.string()) if pa.types.is_timestamp(column.type) and column.type.unit == "ns" else column
        for column in batch.columns
    ]
    rows: list[Mapping[str, object]] = pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()
    return rows
