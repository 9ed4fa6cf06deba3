"""Section `threads`: the embedded engine with a thread per core compared with one thread, in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median

import pyarrow as pa

from loadgen.bench.measurement import Bar, Measurement, at_least, seconds
from loadgen.promises.data import columns, self_join
from loadgen.promises.embedded import WORKLOAD
from loadgen.promises.sizes import Context
from spojoin.embedded.engine import Engine
from spojoin.embedded.run import engine_for
from spojoin.threads import cores

#: The bars on two cores; small frames, which have little to share, must be no slower.
LARGE_BAR, SMALL_BAR = at_least(1.7), at_least(1)
SMALL_WINDOW = 10_000
#: Rows fed at once, as by readers of files.
CHUNK_ROWS = 1 << 16


def measure(context: Context) -> Iterator[Measurement]:
    """The median pairwise ratio of rates, at the large window and at a small one."""
    for window, bar in ((context.sizes.window, LARGE_BAR), (SMALL_WINDOW, SMALL_BAR)):
        context.say(f"one thread and {cores()}, a window of {window:,}")
        yield from _measured(context, window, bar)


def _measured(context: Context, window: int, bar: Bar) -> Iterator[Measurement]:
    sizes = context.sizes
    piece = sizes.slide_after // 2
    data = columns(WORKLOAD, window + piece * sizes.repeats).table()
    engines = [engine_for(self_join(window, window // 10), 1, threads) for threads in (1, cores())]
    _alike([_fed(engine, data.slice(0, window)) for engine in engines])
    pairs = [_pair(engines, data.slice(window + repeat * piece, piece)) for repeat in range(sizes.repeats)]
    for engine in engines:
        engine.close()
    one, shared = (median(pair[at] for pair in pairs) / piece * 1e6 for at in (0, 1))
    note = f"median of {len(pairs)} pairs; {one:.3g} and {shared:.3g} us a tuple"
    ratio = median(pair[0] / pair[1] for pair in pairs)
    yield Measurement(f"window of {window:,}: {cores()} threads / one", ratio, "times", bar, note)


def _pair(engines: Sequence[Engine], rows: pa.Table) -> list[float]:
    """Seconds of each engine for the same rows; their counts are compared."""
    found: list[list[pa.RecordBatch]] = [[] for _ in engines]
    taken = [seconds(partial(_feed_into, into, engine, rows)) for into, engine in zip(found, engines, strict=True)]
    _alike(found)
    return taken


def _feed_into(found: list[pa.RecordBatch], engine: Engine, rows: pa.Table) -> None:
    found += _fed(engine, rows)


def _alike(found: Sequence[list[pa.RecordBatch]]) -> None:
    if found[0] != found[1]:
        raise ValueError(f"other counts with {cores()} threads than with one")


def _fed(engine: Engine, table: pa.Table) -> list[pa.RecordBatch]:
    results = [result for batch in table.to_batches(CHUNK_ROWS) for result in engine.feed(0, batch)]
    return [*results, *engine.wait()]
