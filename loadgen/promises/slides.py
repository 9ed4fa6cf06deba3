"""Section `slides`: a window that moves with every tuple compared with one that moves by a tenth, end to end."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from loadgen.bench.measurement import Measurement, at_most
from loadgen.promises.data import ABOUT, Columns, check_counts, columns, self_join
from loadgen.promises.embedded import CHECKED, WORKLOAD
from loadgen.promises.sizes import Context
from spojoin.embedded.engine import Engine
from spojoin.embedded.run import engine_for

SLIDE_BAR = at_most(2)
#: Rows fed at once, as by readers of files.
CHUNK_ROWS = 1 << 16
#: The number of passes. The fastest counts, since the first may compile kernels.
PASSES = 2


def measure(context: Context) -> Iterator[Measurement]:
    """The embedded engine's cost per tuple at both slides."""
    sizes = context.sizes
    data = columns(WORKLOAD, sizes.window + sizes.slide_after)
    filling, after = (part.table() for part in (data[: sizes.window], data[sizes.window :]))
    us = {}
    for slide in (sizes.slide, 1):
        context.say(f"a slide of {slide:,}")
        us[slide] = min(_us_a_tuple(data, filling, after, sizes.window, slide) for _ in range(PASSES))
        yield Measurement(
            f"slide of {slide:,}", us[slide], "us a tuple", note=f"{ABOUT[WORKLOAD]}; embedded, both directions"
        )
    yield Measurement("slide of 1 / large slide", us[1] / us[sizes.slide], "times", SLIDE_BAR)


def _us_a_tuple(data: Columns, filling: pa.Table, after: pa.Table, window: int, slide: int) -> float:
    """The time of each tuple after the full window; every count is checked."""
    engine, results = engine_for(self_join(window, slide), 1), []
    results += _feed(engine, filling)
    began = time.perf_counter()
    results += _feed(engine, after)
    took: float = time.perf_counter() - began
    check_counts(data, window, slide, pa.Table.from_batches(results), CHECKED)
    return took / float(after.num_rows) * 1e6


def _feed(engine: Engine, table: pa.Table) -> list[pa.RecordBatch]:
    results = [result for batch in table.to_batches(CHUNK_ROWS) for result in engine.feed(0, batch)]
    return [*results, *engine.flush()]
