"""Section `columns`: workers that share a window by keys, and one of those that share a wide one; see `scale`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from loadgen.bench.measurement import Measurement, at_least, at_most
from loadgen.promises import works
from loadgen.promises.alone import ColumnsRecords, ScaleStage, Spent, spent
from loadgen.promises.recording import Recording, Release
from loadgen.promises.scale import ALONE, stages, worker_us
from loadgen.promises.sizes import Context
from loadgen.promises.spreading import with_spread_keys
from loadgen.promises.wide import WideWindow
from spojoin.protocol.grid import Grid, Share
from spojoin.protocol.topology import Topic
from spojoin.wire.codec import decode
from spojoin.wire.records import Part

COLUMNS = 8
MEMORY_BAR, CPU_BAR = at_most(1.3), at_least(5)
HOT, SEARCHED = "spojoin_hot_probes_total", "spojoin_searched_probes_total"
TUPLES, BYTES = "spojoin_state_tuples", "spojoin_state_bytes"


def measure(context: Context) -> Iterator[Measurement]:
    """CPU and memory of each column of skewed keys, and of one column of a window that few processes would hold."""
    with stages(context) as stage_of:
        yield from _by_key(stage_of(works.by_key(context.sizes), None))
        wide = WideWindow(context.sizes, Share(0, COLUMNS))
        yield from _wide(stage_of(wide.work, wide.run), wide)


def _by_key(stage: ScaleStage) -> Iterator[Measurement]:
    """Columns that share the tuples by their keys: memory and CPU of each, beside one column."""
    about = f"{works.KEYS:,} keys, Zipf {works.EXPONENT}"
    one_us = worker_us(stage, ALONE)
    yield Measurement("by key, 1 column: CPU of its worker", one_us, "us a tuple", note=about)
    release = Release(Grid(1, COLUMNS, by_key=True))
    spread = replace(stage, run=with_spread_keys(stage.run, stage.work.query(), release.grid))
    columns = [_column(spread, release, number) for number in range(COLUMNS)]
    _check_sums(stage.run, columns)
    most_us = max(each.measured_s for each in columns) / stage.run.measured * 1e6
    held = [each.figures[BYTES] for each in columns]
    named = f"by key, {COLUMNS} columns"
    yield Measurement(f"{named}: CPU of the busiest worker", most_us, "us a tuple", note=about)
    yield Measurement(f"by key: CPU of 1 column / of the busiest of {COLUMNS}", one_us / most_us, "times", CPU_BAR)
    yield Measurement(
        f"{named}: memory of the largest / the mean", max(held) / float(np.mean(held)), "times", MEMORY_BAR
    )
    hot, searched = (sum(each.figures[name] for each in columns) for name in (HOT, SEARCHED))
    yield Measurement(f"{named}: searches for keys in all columns", 100 * hot / searched, "% of searches")


def _column(stage: ScaleStage, release: Release, number: int) -> Spent:
    follow = partial(ColumnsRecords, topic=Topic.MATCHES, number=1 + number)
    reads = Topic.BATCHES, Topic.FRAMES
    runs = [
        spent(stage, release, f"pojoin-{number}", follow, *reads, run=run, has_figures=True)
        for run in range(stage.context.sizes.scale_runs)
    ]
    return min(runs, key=lambda each: each.measured_s)


def _check_sums(run: Recording, columns: list[Spent]) -> None:
    """Raise AssertionError if the columns' counts aren't, together, those of the run's one column."""
    counts = [each.output.counts() for each in columns if isinstance(each.output, ColumnsRecords)]
    for part in run.records[Topic.MATCHES]:
        if isinstance(part, Part) and part.part:
            whole = np.stack([each.counts for each in part.directions])
            if not np.array_equal(sum(each[part.frame_id] for each in counts), whole):
                raise AssertionError(f"frame {part.frame_id}: the columns find other counts than one column")


def _wide(stage: ScaleStage, wide: WideWindow) -> Iterator[Measurement]:
    """A column of a window that one process would hardly hold."""
    follow = partial(ColumnsRecords, topic=Topic.MATCHES, number=1)
    found = spent(stage, Release(Grid(1, COLUMNS)), "pojoin-0", follow, Topic.BATCHES, Topic.FRAMES, has_figures=True)
    assert isinstance(found.output, ColumnsRecords), "a column's parts were followed"
    part = decode(found.output.found[-1])
    assert isinstance(part, Part), "a worker writes parts"
    wide.check(part)
    named = f"window of {wide.tuples:,}, {COLUMNS} columns"
    held, measured = found.figures[TUPLES], stage.run.measured
    index = found.figures[BYTES] / held
    yield Measurement(f"{named}: index of a column", index, "bytes a tuple", note=f"{held:,.0f} tuples in the column")
    yield Measurement(f"{named}: peak memory of a worker", found.peak_rss_bytes / held, "bytes a tuple", note="process")
    yield Measurement(f"{named}: CPU of a worker", found.measured_s / measured * 1e6, "us a tuple", note="window full")
    built = found.before_s / wide.stored * 1e6
    yield Measurement(
        f"{named}: CPU to fill a column", built, "us a tuple of the column", note="read, sorted and merged"
    )
