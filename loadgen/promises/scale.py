"""Section `scale`: what each process of a release costs, by the number of those that divide its work.

A run in this process makes the records of all internal topics. Then each process of a release is alone on a broker
whose topics hold what it reads, and its CPU per tuple is taken. So the figures hold for machines with more cores than
this one: the rate of a release is that of its busiest process. What a process writes must equal what the run wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np

from loadgen.bench.measurement import Bar, Measurement, at_least, at_most
from loadgen.promises import works
from loadgen.promises.alone import (
    ColumnsRecords,
    FramedTuples,
    SameRecords,
    SameWorkersRecords,
    ScaleStage,
    SinksAnswers,
    Spent,
    WorkersRecords,
    cpu_us,
    spent,
)
from loadgen.promises.recording import Recording, Release, ScaleWork, recorded
from loadgen.promises.sizes import Context
from loadgen.promises.spreading import with_spread_keys
from loadgen.promises.wide import WideWindow
from spojoin.local.cluster import LocalCluster, local_cluster
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.redis_store import RedisStore
from spojoin.protocol.grid import Grid, Share
from spojoin.protocol.services import names_from_one
from spojoin.protocol.topology import Role, Topic
from spojoin.wire.codec import decode
from spojoin.wire.records import Part

ALONE = Release(Grid(1, 1))
GROWN = Release(Grid(8, 1), 4, 4)
#: Releases that grow with rows of workers of one column each, and columns of one row beside them.
RELEASES = (ALONE, Release(Grid(2, 1)), Release(Grid(4, 1), 2, 2), GROWN)
COLUMNS = (Release(Grid(1, 2)), Release(Grid(1, 8)))
#: Works that a probe dominates, by what figures call them.
HEAVY: dict[str, Callable[..., ScaleWork]] = {
    "three ranges": works.three_ranges,
    f"{works.PARTNERS} pairs a row, window of a tenth": works.pairs,
    "MAX over two ranges": works.greatest,
}
RATE_BAR, HEAVY_BAR = at_least(3_000_000), at_least(6)
KEY_COLUMNS = 8
MEMORY_BAR, KEY_BAR = at_most(1.3), at_least(5)


def measure(context: Context) -> Iterator[Measurement]:
    """CPU of each process alone; the rate and the cost of a release with as many rows of workers; columns."""
    with local_cluster(context.say) as cluster, _clients(cluster) as (log, store):

        def stage_of(work: ScaleWork, run: Recording | None = None) -> ScaleStage:
            context.say(f"{work.name}: recording a run")
            return ScaleStage(context, cluster, log, store, work, run or recorded(work))

        yield from _plain(stage_of(works.plain(context.sizes)))
        for name, make in islice(HEAVY.items(), context.sizes.scale_heavy):
            yield from _heavy(stage_of(make(context.sizes)), name)
        yield from _by_key(stage_of(works.by_key(context.sizes)))
        wide = WideWindow(context.sizes, Share(0, KEY_COLUMNS))
        yield from _wide(stage_of(wide.work, wide.run), wide)


@contextmanager
def _clients(cluster: LocalCluster) -> Iterator[tuple[KafkaLog, RedisStore]]:
    log, store = KafkaLog(KafkaConfig(cluster.broker.bootstrap)), RedisStore(cluster.redis.url)
    try:
        yield log, store
    finally:
        log.close()
        store.close()


# --- rows of workers --------------------------------------------------------------------------------------------------


def _plain(stage: ScaleStage) -> Iterator[Measurement]:
    whatever = _whatever(stage)
    for name, each_us in whatever.items():
        yield Measurement(f"{name}: CPU", each_us, "us a tuple", note="whatever the release")
    for release in RELEASES:
        yield from _release(stage, release, whatever, "", RATE_BAR if release is GROWN else None)
    for release in COLUMNS:
        yield Measurement(f"{release.grid.columns} columns: CPU of each worker", _worker(stage, release), "us a tuple")


def _heavy(stage: ScaleStage, name: str) -> Iterator[Measurement]:
    """One row of workers beside many, for a work that a probe dominates."""
    whatever, rates = _whatever(stage), []
    for release in (ALONE, GROWN):
        for figure in _release(stage, release, whatever, f"{name}, "):
            yield figure
            if figure.unit == "tuples/s":
                rates.append(figure.value)
    several = f"{GROWN.grid.rows} rows of workers / one, by the busiest process"
    yield Measurement(f"{name}, {several}", rates[1] / rates[0], "times", HEAVY_BAR)


def _whatever(stage: ScaleStage) -> dict[str, float]:
    """CPU of the services whose number does not follow the workers', in microseconds a tuple; of each of several."""
    return {
        "router": cpu_us(stage, ALONE, "router", partial(FramedTuples, topic=Topic.FRAMES), Topic.INPUT),
        "mutable joiner": max(_joiner(stage, number) for number in range(_joiners(stage))),
        "permutation": cpu_us(stage, ALONE, "permutation", partial(SameRecords, topic=Topic.BATCHES), Topic.RUNS),
    }


def _release(
    stage: ScaleStage, release: Release, whatever: dict[str, float], prefix: str, bar: Bar | None = None
) -> Iterator[Measurement]:
    rows = release.grid.rows
    named = f"{prefix}{rows} row{'s' * (rows > 1)} of workers"
    divided = {
        "PO-Join worker": (_worker(stage, release), rows),
        "logical AND": (_logical_and(stage, release.logical_ands), release.logical_ands),
        "sink": (_sink(stage, release), release.sinks),
    }
    for name, (each_us, count) in divided.items():
        yield Measurement(f"{named}: CPU of a {name}, one of {count}", each_us, "us a tuple")
    each = whatever | {name: each_us for name, (each_us, _) in divided.items()}
    busiest = max(each, key=lambda name: each[name])
    yield Measurement(f"{named}: rate of the busiest process", 1e6 / each[busiest], "tuples/s", bar, busiest)
    whole = sum(whatever.values()) + (_joiners(stage) - 1) * whatever["mutable joiner"]
    whole += sum(each_us * count for each_us, count in divided.values())
    yield Measurement(f"{named}: CPU of all services", whole, "us a tuple", note="without the broker")


def _joiners(stage: ScaleStage) -> int:
    """A joiner for each of the query's predicates."""
    return len(stage.work.query().predicates)


def _joiner(stage: ScaleStage, number: int) -> float:
    follow = partial(SameRecords, topic=Topic.PARTIALS, number=number)
    return cpu_us(stage, ALONE, f"mutable-{number}", follow, Topic.FRAMES)


def _logical_and(stage: ScaleStage, count: int) -> float:
    """CPU of the first of several logical ANDs."""
    name, follow = names_from_one(Role.LOGICAL_AND, count)[0], partial(SameRecords, topic=Topic.MATCHES)
    return cpu_us(stage, Release(ALONE.grid, count), name, follow, Topic.PARTIALS, Topic.FRAMES)


def _worker(stage: ScaleStage, release: Release) -> float:
    """CPU of a grid's first worker."""
    output = SameWorkersRecords if release.grid.columns == 1 else WorkersRecords
    follow = partial(output, topic=Topic.MATCHES, number=1)
    return cpu_us(stage, release, "pojoin-0", follow, Topic.BATCHES, Topic.FRAMES)


def _sink(stage: ScaleStage, release: Release) -> float:
    """CPU of the first of several sinks."""
    name, follow = names_from_one(Role.SINK, release.sinks)[0], partial(SinksAnswers, topic=Topic.RESULTS)
    return cpu_us(stage, release, name, follow, Topic.MATCHES, Topic.BATCHES, Topic.FRAMES)


# --- columns ----------------------------------------------------------------------------------------------------------


def _by_key(stage: ScaleStage) -> Iterator[Measurement]:
    """Columns that share the tuples by their keys: memory and CPU of each, beside one column."""
    about = f"{works.KEYS:,} keys, Zipf {works.EXPONENT}"
    one_us = _worker(stage, ALONE)
    yield Measurement("by key, 1 column: CPU of its worker", one_us, "us a tuple", note=about)
    release = Release(Grid(1, KEY_COLUMNS, by_key=True))
    spread = replace(stage, run=with_spread_keys(stage.run, stage.work.query(), release.grid))
    columns = [_column(spread, release, number) for number in range(KEY_COLUMNS)]
    _check_sums(stage.run, columns)
    most_us = max(each.measured_s for each in columns) / stage.run.measured * 1e6
    held = [each.figures["spojoin_state_bytes"] for each in columns]
    named = f"by key, {KEY_COLUMNS} columns"
    yield Measurement(f"{named}: CPU of the busiest worker", most_us, "us a tuple", note=about)
    yield Measurement(f"by key: CPU of 1 column / of the busiest of {KEY_COLUMNS}", one_us / most_us, "times", KEY_BAR)
    yield Measurement(
        f"{named}: memory of the largest / the mean", max(held) / float(np.mean(held)), "times", MEMORY_BAR
    )
    hot, searched = (sum(each.figures[name] for each in columns) for name in (_HOT, _SEARCHED))
    yield Measurement(f"{named}: searches for keys in all columns", 100 * hot / searched, "% of searches")


_HOT, _SEARCHED = "spojoin_hot_probes_total", "spojoin_searched_probes_total"


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
    found = spent(
        stage, Release(Grid(1, KEY_COLUMNS)), "pojoin-0", follow, Topic.BATCHES, Topic.FRAMES, has_figures=True
    )
    assert isinstance(found.output, ColumnsRecords), "a column's parts were followed"
    part = decode(found.output.found[-1])
    assert isinstance(part, Part), "a worker writes parts"
    wide.check(part)
    named = f"window of {wide.tuples:,}, {KEY_COLUMNS} columns"
    held, measured = found.figures["spojoin_state_tuples"], stage.run.measured
    index = found.figures["spojoin_state_bytes"] / held
    yield Measurement(f"{named}: index of a column", index, "bytes a tuple", note=f"{held:,.0f} tuples in the column")
    yield Measurement(f"{named}: peak memory of a worker", found.peak_rss_bytes / held, "bytes a tuple", note="process")
    yield Measurement(f"{named}: CPU of a worker", found.measured_s / measured * 1e6, "us a tuple", note="window full")
    built = found.before_s / wide.stored * 1e6
    yield Measurement(
        f"{named}: CPU to fill a column", built, "us a tuple of the column", note="read, sorted and merged"
    )
