"""Record batches as one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Batches as one; schema: of their columns where there is none."""
    tables = [pa.Table.from_batches([batch]) for batch in batches] or [schema.empty_table()]
    table = pa.concat_tables(_alike(tables), promote_options="default").combine_chunks()
    found = table.to_batches()
    return (
        found[0]
        if found
        else pa.RecordBatch.from_arrays([pa.array([], f.type) for f in table.schema], schema=table.schema)
    )


def taken(batch: pa.RecordBatch, places: pa.Array) -> pa.RecordBatch:
    """Rows of a batch by their places; text and bytes as views, which Arrow can't take by places, become plain."""
    plain = pa.schema([field.with_type(_PLAIN.get(field.type, field.type)) for field in batch.schema])
    return (batch if plain.equals(batch.schema) else batch.cast(plain)).take(places)


def _alike(tables: Sequence[pa.Table]) -> Sequence[pa.Table]:
    """The tables with text in place of columns whose types differ: each block of a JSON file has its own."""
    kinds: dict[str, set[pa.DataType]] = {}
    for field in (field for table in tables for field in table.schema if not pa.types.is_null(field.type)):
        kinds.setdefault(field.name, set()).add(field.type)
    mixed = {name for name, found in kinds.items() if len(found) > 1}
    if not mixed:
        return tables
    texts = [[(f.name, pa.string() if f.name in mixed else f.type) for f in table.schema] for table in tables]
    return [table.cast(pa.schema(fields)) for table, fields in zip(tables, texts, strict=True)]
