"""Section `index`: the cost of equalities, a third range and a second band for the embedded engine's counts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import median

import pyarrow as pa

from loadgen.bench.measurement import Bar, Measurement, at_least, seconds
from loadgen.promises.sizes import Context
from loadgen.promises.statement import RANGES, counting_text, statement_rows
from spojoin.embedded.engine import Engine
from spojoin.embedded.run import engine_for
from spojoin.query.load import parse_query

KEY = "l.k = r.k"
#: The compared conditions, with as many keys as the statement has texts.
RATIOS: dict[str, tuple[str, str, Bar]] = {
    "two ranges: with an equality / without": (f"{KEY} AND {RANGES}", RANGES, at_least(0.8)),
    "one range: with an equality / without": (f"{KEY} AND l.b < r.b", "l.b < r.b", at_least(0.95)),
}
#: 4 times 15,600 and 1.5 times 128,000, which were the earlier rates.
RATES: dict[str, tuple[str, Bar]] = {
    "three ranges": (f"{RANGES} AND l.p < r.p", at_least(62_400, goal=100_000)),
    "two bands": ("ABS(l.a - r.a) < 5 AND ABS(l.b - r.b) < 5", at_least(192_000)),
}
CHUNK_ROWS = 1 << 16


def measure(context: Context) -> Iterator[Measurement]:
    """Median pairwise ratios of rates, and rates, with a full window."""
    sizes = context.sizes
    piece = sizes.slide_after // 5
    rows = statement_rows(sizes.window + piece * sizes.repeats).table()
    for name, (above, below, bar) in RATIOS.items():
        context.say(name)
        with_it, without = _timed(context, [above, below], rows, piece)
        ratio = median(slow / fast for fast, slow in zip(with_it, without, strict=True))
        rates = f"{piece / median(with_it):,.0f} and {piece / median(without):,.0f} tuples/s"
        note = f"median of {len(without)} pairs; {rates}"
        yield Measurement(name, ratio, "times", bar, note)
    for name, (on, bar) in RATES.items():
        context.say(name)
        (times,) = _timed(context, [on], rows, piece)
        yield Measurement(name, piece / median(times), "tuples/s", bar)


def _timed(context: Context, conditions: list[str], rows: pa.Table, piece: int) -> list[list[float]]:
    """Seconds of each condition's engine, in turn, for each piece after the full window."""
    window = context.sizes.window
    engines = [engine_for(parse_query(counting_text("bench", on, window)), 1, 1) for on in conditions]
    for engine in engines:
        _feed(engine, rows.slice(0, window))
    pieces = [rows.slice(window + at * piece, piece) for at in range(context.sizes.repeats)]
    taken = [[seconds(partial(_feed, engine, each)) for engine in engines] for each in pieces]
    for engine in engines:
        engine.close()
    return [list(times) for times in zip(*taken, strict=True)]


def _feed(engine: Engine, table: pa.Table) -> None:
    for batch in table.to_batches(CHUNK_ROWS):
        for _ in engine.feed(0, batch):
            pass
