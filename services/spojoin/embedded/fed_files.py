"""The files of a run on their way into the engine: tables first, then streams at a balanced pace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from spojoin.embedded.engine import Engine
from spojoin.embedded.inputs import InputFile, balanced
from spojoin.errors import BadData


def fed(engine: Engine, files: Sequence[InputFile]) -> Iterator[tuple[InputFile, Iterator[pa.RecordBatch]]]:
    """Each step of a run: the file that was read, and what it gives; exhaust that before the next step."""
    for file in files:
        if file.stream.table is not None:
            yield file, engine.load(whole(file), f"table {file.stream.name}, {file.reader.path}")
    for file, batch in balanced([file for file in files if file.stream.table is None]):
        yield file, engine.end(file.index) if batch is None else engine.feed(file.index, batch, file.refused)


def whole(file: InputFile) -> pa.RecordBatch:
    """All rows of a file. Raises BadData where a line is none."""
    batches = []
    while (batch := file.read()) is not None:
        for row, why in file.refused.items():
            at = file.rows - batch.num_rows + row
            raise BadData(f"table {file.stream.name}, {file.reader.path}, row {at}: {why}: a table is taken as a whole")
        batches.append(batch)
    return one_batch(batches, file.reader.schema)


def one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Batches as one; schema: of their columns where there is none."""
    table = pa.Table.from_batches(batches, None if batches else schema).combine_chunks()
    found = table.to_batches()
    return (
        found[0]
        if found
        else pa.RecordBatch.from_arrays([pa.array([], f.type) for f in table.schema], schema=table.schema)
    )
