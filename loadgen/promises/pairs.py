"""Section `pairs`: how fast the embedded engine lists partners, as Arrow batches and into Parquet."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from loadgen.bench.measurement import Measurement, at_least
from loadgen.promises.data import ABOUT, columns, self_join
from loadgen.promises.sizes import Context
from spojoin.arrays import F64
from spojoin.embedded.engine import Engine
from spojoin.embedded.run import engine_for
from spojoin.embedded.writers import open_writer
from spojoin.model import Output

WORKLOAD = "selective"
ARROW_BAR = at_least(20e6)
PARQUET_BAR = at_least(5e6)
#: Rows fed at once: a frame or two, for frequent measurements.
CHUNK_ROWS = 1 << 13
#: Tuples after the full window; each makes pairs with about two thousandths of the window.
SPARE = 1 << 17


def measure(context: Context) -> Iterator[Measurement]:
    """Pairs per second with a full window."""
    sizes = context.sizes
    data = columns(WORKLOAD, sizes.window + SPARE)
    engine = engine_for(self_join(sizes.window, sizes.slide, Output.PAIRS), 1)
    context.say("filling the window")
    for batch in data[: sizes.window].table().to_batches(CHUNK_ROWS):
        for _ in engine.feed(0, batch):
            pass
    made = _pairs(engine, data[sizes.window :].table())
    first = next(made)
    _check(first, data.a, data.b)
    context.say("as Arrow batches")
    yield _arrow_rate(made, sizes.pairs)
    context.say("into Parquet")
    path = context.scratch / "pairs.parquet"
    began = time.perf_counter()
    with open_writer(path, first.schema) as writer:
        while writer.rows < sizes.pairs_parquet:
            writer.write(next(made))
    rate = writer.rows / (time.perf_counter() - began)
    size = path.stat().st_size / writer.rows
    yield Measurement("pairs into Parquet", rate, "pairs/s", PARQUET_BAR, f"{size:.1f} bytes a pair in the file")


def _pairs(engine: Engine, table: pa.Table) -> Iterator[pa.RecordBatch]:
    for batch in table.to_batches(CHUNK_ROWS):
        yield from engine.feed(0, batch)
    raise RuntimeError("the workload ended before enough pairs were made: raise SPARE")


def _arrow_rate(made: Iterator[pa.RecordBatch], wanted: int) -> Measurement:
    pairs, batches, began = 0, 0, time.perf_counter()
    while pairs < wanted:
        pairs += next(made).num_rows
        batches += 1
    rate = pairs / (time.perf_counter() - began)
    note = f"{ABOUT[WORKLOAD]}; {pairs // batches:,} pairs a batch"
    return Measurement("pairs as Arrow batches", rate, "pairs/s", ARROW_BAR, note)


def _check(batch: pa.RecordBatch, a: F64, b: F64) -> None:
    left, right = (batch.column(name).to_numpy() for name in ("left_seq", "right_seq"))
    if not ((a[left] > a[right]) & (b[left] < b[right])).all():
        raise AssertionError("a pair that was made doesn't satisfy the predicates")
