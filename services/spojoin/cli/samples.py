"""The first rows of files, for EXPLAIN."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from spojoin.embedded.readers import open_reader
from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.query.schema import arrow_schema


def read_samples(query: Query, named: Sequence[str], rows: int) -> dict[str, pa.Table]:
    """The first `rows` rows of each stream's file; `named` holds STREAM=FILE, or FILE if there is one stream."""
    paths = dict(_named(text, query) for text in named)
    return {stream.name: _first_rows(paths, stream.name, query, rows) for stream in query.inputs}


def _named(text: str, query: Query) -> tuple[str, Path]:
    names = [stream.name for stream in query.inputs]
    stream, equals, path = text.partition("=")
    if equals and stream in names:
        return stream, Path(path)
    if len(names) == 1:
        return names[0], Path(text)
    raise ConfigurationError(f"--sample {text}: expected STREAM=FILE with one of the streams {', '.join(names)}")


def _first_rows(paths: dict[str, Path], name: str, query: Query, rows: int) -> pa.Table:
    if name not in paths:
        raise ConfigurationError(f"no sample for the stream {name!r}: add --sample {name}=FILE")
    stream = next(stream for stream in query.inputs if stream.name == name)
    schema = arrow_schema(stream, needs_time=False)
    reader = open_reader(paths[name], schema, stream.key)
    if stream.time_column:
        reader.check_has(stream.time_column)
    batches: list[pa.RecordBatch] = []
    for batch in reader:
        batches.append(batch.slice(0, rows - sum(each.num_rows for each in batches)))
        if sum(each.num_rows for each in batches) >= rows:
            break
    return pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches]) if batches else schema.empty_table()
