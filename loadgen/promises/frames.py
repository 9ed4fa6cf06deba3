"""Section `frames`: the fixed cost of a frame, by frames of 64, 512 and 4,096 rows of the same stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from statistics import median

import pyarrow as pa

from loadgen.bench.measurement import Measurement, at_least, at_most, seconds
from loadgen.promises.data import columns, self_join
from loadgen.promises.embedded import WORKLOAD
from loadgen.promises.sizes import Context
from spojoin.embedded.engine import Engine
from spojoin.roles.router.config import UNLIMITED, RouterConfig

SMALL, MIDDLE, LARGE = 64, 512, 4_096
SMALL_BAR, MIDDLE_BAR = at_most(0.04, goal=0.02), at_least(0.6)
#: Rows fed at once, as by readers of files, so that the time of frames counts, not of calls.
CHUNK_ROWS = 1 << 16


def measure(context: Context) -> Iterator[Measurement]:
    """Median ratios, piece by piece, of a frame's time and of rates, with a full window and one thread."""
    sizes = context.sizes
    piece = sizes.slide_after // 8
    data = columns(WORKLOAD, sizes.window + piece * sizes.repeats).table()
    streams = {rows: FrameStream(sizes.window, rows) for rows in (SMALL, MIDDLE, LARGE)}
    for rows, stream in streams.items():
        context.say(f"frames of {rows:,}")
        stream.feed(data.slice(0, sizes.window))
    pieces = [data.slice(sizes.window + at * piece, piece) for at in range(sizes.repeats)]
    taken = [{rows: seconds(partial(stream.feed, each)) for rows, stream in streams.items()} for each in pieces]
    _check_alike({rows: stream.end() for rows, stream in streams.items()})
    yield from figures(taken, piece)


class FrameStream:
    """An engine with frames of a given size, and its counts."""

    def __init__(self, window: int, rows: int) -> None:
        config = RouterConfig("bench", frame_tuples=rows, credits_frames=UNLIMITED)
        self._engine = Engine(self_join(window, window // 10), config)
        self._results: list[pa.RecordBatch] = []

    def feed(self, table: pa.Table) -> None:
        """Take rows; the last ones may wait until their frame is full."""
        self._results += chain.from_iterable(self._engine.feed(0, batch) for batch in table.to_batches(CHUNK_ROWS))

    def end(self) -> pa.Table:
        """All results, by probe."""
        self._results += self._engine.flush()
        self._engine.close()
        return pa.Table.from_batches(self._results).select(["seq", "as_left", "as_right"])


def figures(taken: Sequence[Mapping[int, float]], piece: int) -> Iterator[Measurement]:
    """The ratios of the seconds that a piece of `piece` rows took, by the rows of a frame."""
    frame_ms = {rows: median(each[rows] for each in taken) / piece * rows * 1e3 for rows in taken[0]}
    note = f"median of {len(taken)} pairs; {{}} and {frame_ms[LARGE]:.3g} ms a frame".format
    small = median(each[SMALL] * SMALL / (each[LARGE] * LARGE) for each in taken)
    name = f"a frame of {SMALL} rows relative to one of {LARGE:,}"
    yield Measurement(name, small, "times", SMALL_BAR, note(f"{frame_ms[SMALL]:.3g}"))
    middle = median(each[LARGE] / each[MIDDLE] for each in taken)
    name = f"rows/s at frames of {MIDDLE} relative to {LARGE:,}"
    yield Measurement(name, middle, "times", MIDDLE_BAR, note(f"{frame_ms[MIDDLE]:.3g}"))


def _check_alike(counted: Mapping[int, pa.Table]) -> None:
    for rows, table in counted.items():
        if not table.equals(counted[LARGE]):
            raise ValueError(f"other counts in frames of {rows:,} than in frames of {LARGE:,}")
