"""The files of a run on their way into the engine: tables first, then streams at a balanced pace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from spojoin.embedded.inputs import InputFile, balanced
from spojoin.embedded.one_batch import one_batch
from spojoin.errors import BadData

if TYPE_CHECKING:
    from spojoin.embedded.engine import Engine
    from spojoin.embedded.table_join import TableJoin


def fed(
    engine: Engine | TableJoin, files: Sequence[InputFile], *, refuses: bool = True
) -> Iterator[tuple[InputFile, Iterator[pa.RecordBatch]]]:
    """Each step of a run: the file that was read, and what it gives; exhaust that before the next step.

    refuses: whether rows of a table are refused one by one, as those of streams; else one that can't be used is BadData
    """
    for file in files:
        if file.stream.table is not None:
            batch, malformed = _rows(file) if refuses else (whole(file), None)
            yield file, engine.load(batch, _named(file), malformed)
    for file, batch in balanced([file for file in files if file.stream.table is None]):
        if batch is None:
            yield file, engine.end(file.index)
        else:
            yield file, engine.feed(file.index, batch, file.refused, file.places(batch.num_rows))


def whole(file: InputFile) -> pa.RecordBatch:
    """All rows of a file. Raises BadData where a line is none."""
    batch, malformed = _rows(file)
    for row, why in malformed.items():
        raise BadData(f"{_named(file)}, row {row}: {why}: a table is taken as a whole")
    return batch


def _named(file: InputFile) -> str:
    return f"table {file.stream.name}, {file.reader.path}"


def _rows(file: InputFile) -> tuple[pa.RecordBatch, dict[int, str]]:
    """All rows of a file, and by position why some of it is no row."""
    batches: list[pa.RecordBatch] = []
    malformed: dict[int, str] = {}
    while (batch := file.read()) is not None:
        malformed |= {file.rows - batch.num_rows + row: why for row, why in file.refused.items()}
        batches.append(batch)
    return one_batch(batches, file.reader.schema), malformed
