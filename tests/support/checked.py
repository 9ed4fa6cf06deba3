"""Messages as the checker reads them from Spark, without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from loadgen.check.pair_rows import select_schema
from spojoin.model import Query

INPUT = "partition int, offset long, value binary"
TOPIC = "partition int, offset long, key binary, value binary"
LOG = "offset long, value binary"
OUTPUT = "partition int, offset long, value binary, headers array<struct<key: string, value: binary>>"


def as_frame(session: SparkSession, messages: Iterable[Mapping[str, object]], schema: str) -> DataFrame:
    """Messages of partition 0, in the order of their offsets."""
    rows = [{"partition": 0, "offset": offset} | dict(message) for offset, message in enumerate(messages)]
    return session.createDataFrame(rows, schema)


def as_message(table: pa.Table) -> bytes:
    """The value of a result: an Arrow stream of small batches."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    return bytes(sink.getvalue().to_pybytes())


def answer_table(query: Query, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    """Answers with the types of the query's select list."""
    schema = select_schema(query)
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def answer_headers(frame: int, answers: int) -> list[dict[str, object]]:
    """The headers of a result that is a whole frame."""
    said = {"frame": frame, "begin": 0, "end": answers, "last": 1}
    return [{"key": f"spojoin-{name}", "value": b"%d" % number} for name, number in said.items()]
