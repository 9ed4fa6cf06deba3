"""Section `payload`: how fast the embedded engine outputs rows with columns of both sides, as Arrow batches."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from loadgen.bench.measurement import Bar, Measurement, at_least
from loadgen.promises.data import ABOUT, Columns, columns
from loadgen.promises.sizes import Context
from spojoin.embedded.engine import Engine
from spojoin.embedded.run import engine_for
from spojoin.model import Query
from spojoin.query.load import parse_query

WORKLOAD = "selective"
ROWS_BAR = at_least(8e6)
#: Rows fed at once, and rows after the full window.
CHUNK_ROWS, SPARE = 1 << 13, 1 << 17
#: In columns with NULLs, one value in this many is NULL.
NULL_ONE_IN = 10
KINDS: dict[str, Bar | None] = {"numbers": ROWS_BAR, "texts": None, "numbers and NULLs": None}


def measure(context: Context) -> Iterator[Measurement]:
    """Rows per second with a full window and three columns per side; texts and NULLs in a tenth of the window."""
    sizes = context.sizes
    for kind, bar in KINDS.items():
        window = sizes.window if bar else sizes.window_small
        data = columns(WORKLOAD, window + SPARE)
        engine = engine_for(_query(window, kind), 1)
        table = _table(data, kind)
        context.say(f"{kind}: filling a window of {window:,}")
        for batch in table.slice(0, window).to_batches(CHUNK_ROWS):
            for _ in engine.feed(0, batch):
                pass
        made = _rows(engine, table.slice(window))
        _check(next(made), data)
        rate, rows, batches = _rate(made, sizes.pairs_parquet * window // sizes.window)
        note = f"{ABOUT[WORKLOAD]}; {window:,} tuples of window; {rows // batches:,} rows a batch"
        yield Measurement(f"rows of {kind}", rate, "rows/s", bar, note)
        yield Measurement(f"rows of {kind}: held", engine.payload_bytes / window, "bytes a row of window")
        engine.close()


def _query(window: int, kind: str) -> Query:
    type_ = "string" if kind == "texts" else "int"
    return parse_query(
        f"""\
name: bench
streams:
  rows:
    schema: {{a: double, b: double, p: double, q: long, n: {type_}}}
sql: |
  SELECT l.p, l.q, l.n, r.p AS p2, r.q AS q2, r.n AS n2 FROM rows AS l JOIN rows AS r
  ON l.a > r.a AND l.b < r.b
  WINDOW AS (SLIDE INTERVAL '{window // 10}' ON '{window}')
order: arrival
"""
    )


def _table(data: Columns, kind: str) -> pa.Table:
    """The rows; column q is the row's number, so that results can be checked."""
    numbers = np.arange(len(data))
    gone = (numbers % NULL_ONE_IN == 0) if kind.endswith("NULLs") else None
    small = pa.array((numbers % 1_000).astype(np.int32), mask=gone)
    last = pa.array([f"SYM{number:04d}" for number in range(1_000)]).take(small) if kind == "texts" else small
    columns_ = {"p": pa.array(numbers * 0.5, mask=gone), "q": pa.array(numbers), "n": last}
    return pa.table({"a": data.a, "b": data.b, **columns_})


def _rows(engine: Engine, table: pa.Table) -> Iterator[pa.RecordBatch]:
    for batch in table.to_batches(CHUNK_ROWS):
        yield from engine.feed(0, batch)
    raise RuntimeError("the workload ended before enough rows were made: raise SPARE")


def _rate(made: Iterator[pa.RecordBatch], wanted: int) -> tuple[float, int, int]:
    """Rows per second, the number of rows and the number of batches."""
    rows, batches, began = 0, 0, time.perf_counter()
    while rows < wanted:
        rows += next(made).num_rows
        batches += 1
    return rows / (time.perf_counter() - began), rows, batches


def _check(batch: pa.RecordBatch, data: Columns) -> None:
    left, right = (batch.column(name).to_numpy() for name in ("q", "q2"))
    if not ((data.a[left] > data.a[right]) & (data.b[left] < data.b[right])).all():
        raise AssertionError("a row of results doesn't satisfy the conditions")
    for number, name in ((left, "p"), (right, "p2")):
        values = batch.column(name).to_numpy(zero_copy_only=False)
        if not np.array_equal(values[~np.isnan(values)], (number * 0.5)[~np.isnan(values)]):
            raise AssertionError(f"column {name} of a row of results is another row's")
