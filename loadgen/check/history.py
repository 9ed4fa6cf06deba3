"""A query over the rows of its input topics as a history on Spark: all result rows, where a nested loop takes too long.

The history is the product's own engine, but neither its services nor its readers: `rows` reads the messages and
`ordering` derives the order, as for the nested loop, which checks a sample beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from loadgen.check import ordering
from loadgen.check.nested_loop import directions, window_begin
from loadgen.check.ordering import Ordered, StreamRows
from loadgen.check.rows import history_columns
from spojoin.errors import ConfigurationError
from spojoin.model import HEADERS, TRACE, Query, Stream

if TYPE_CHECKING:
    from spojoin.spark.history import HistoryJoin

#: The column that says where a row stands in the total order.
POSITION = "_position"
#: Rows of a row group: enough groups that tasks share them evenly.
GROUP_ROWS = 1 << 18


def compared_pairs(query: Query, inputs: Sequence[StreamRows]) -> int:
    """About how many pairs a nested loop compares: each row with those of its window, in both directions."""
    rows = sum(len(each) for each in inputs)
    found = 0
    for direction in directions(query):
        window = query.window_over(direction.target)
        if not window.is_time:
            found += rows * min(window.length, rows)
            continue
        times = np.sort(np.concatenate([each.times_us for each in inputs if each.times_us is not None]))
        begins = np.searchsorted(times, window_begin(window, times), "left")
        found += int(np.maximum(np.arange(len(times)) - begins, 0).sum())
    return found


def planned_history(spark: SparkSession, query: Query, inputs: Sequence[StreamRows], folder: Path) -> HistoryJoin:
    """The history of a query over its inputs' rows that were not refused, written into a folder.

    Raises ConfigurationError, with a sentence, where there can be none.
    """
    from spojoin.spark.asked import of_query  # noqa: PLC0415  (a check by the nested loop needs none of it)
    from spojoin.spark.planned import planned  # noqa: PLC0415
    from spojoin.spark.settings import settings_of  # noqa: PLC0415

    _check_columns(query)
    inputs = ordering.numbered(query, inputs)
    ordered = _order(query, inputs)
    frames, order_by = [], {}
    for number, (stream, rows) in enumerate(zip(query.inputs, inputs, strict=True)):
        path = folder / f"input-{number}.parquet"
        pq.write_table(_in_order(stream, rows, ordered, number), path, row_group_size=GROUP_ROWS)
        frames.append(spark.read.parquet(str(path)))
        order_by[stream.name] = [stream.time or "", POSITION] if ordering.is_by_time(query) else [POSITION]
    return planned(spark, of_query(query, tuple(frames)), order_by, None, settings_of(spark))


def history_batches(history: HistoryJoin, folder: Path) -> Iterator[pa.RecordBatch]:
    """The results of a history, in order; they stand in a folder of their own meanwhile. Raises ConfigurationError."""
    from spojoin.spark.sentences import sentences  # noqa: PLC0415
    from spojoin.spark.written import write_parquet  # noqa: PLC0415

    with sentences():
        write_parquet(history, str(folder))
    for path in sorted(folder.glob("part-*.parquet")):
        yield from pq.ParquetFile(path).iter_batches()


def _check_columns(query: Query) -> None:
    if query.has_table:
        raise ConfigurationError(
            f"query {query.name!r} joins with a table, of which a history knows one version: expected --loop"
        )
    for stream in query.inputs:
        for name in (HEADERS, TRACE, POSITION):
            if name in history_columns(stream) and (name == POSITION or name not in stream.schema):
                raise ConfigurationError(
                    f"query {query.name!r} reads {stream.name}.{name}, which a history of its topic's rows doesn't have"
                )


def _order(query: Query, inputs: Sequence[StreamRows]) -> Ordered:
    if ordering.is_by_time(query):
        return ordering.by_time(inputs)
    if len(inputs) > 1 or len(np.unique(inputs[0].places[0])) > 1:
        raise ConfigurationError(
            f"query {query.name!r} is in the order of arrival of several inputs or partitions, and a history has one: "
            "expected order: event_time, or one partition"
        )
    rows = len(inputs[0])
    return Ordered(np.zeros(rows, np.int8), np.arange(rows, dtype=np.int64))


def _in_order(stream: Stream, rows: StreamRows, ordered: Ordered, number: int) -> pa.Table:
    """The rows of an input by their place in the total order, with the columns that the query names, as it does."""
    places: NDArray[np.int64] = np.flatnonzero(ordered.stream == number)
    table = rows.table.take(pa.array(ordered.index[places]))
    columns = {name: _column(table, here) for name, here in history_columns(stream).items()}
    return pa.table(columns | {POSITION: pa.array(places, pa.int64())})


def _column(table: pa.Table, here: str) -> pa.ChunkedArray:
    return table[here].cast(pa.timestamp("us")) if here == "time_us" else table[here]
