"""Section `scale`: what each process of a release costs, by the number of those that divide its work.

A run in this process makes the records of all internal topics. Then each process of a release is alone on a broker
whose topics hold what it reads, and its CPU per tuple is taken. So the figures hold for machines with more cores than
this one: the rate of a release is that of its busiest process. What a process writes must equal what the run wrote.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from prometheus_client import Counter

from loadgen.bench.measurement import Measurement
from loadgen.load.tap import ResultsTap
from loadgen.promises.data import Columns, check_counts, columns, self_join, self_join_text
from loadgen.promises.serving import MESSAGE_ROWS, arrow_messages, fill
from loadgen.promises.sizes import Context
from spojoin.embedded.engine import Engine
from spojoin.evaluation.interface import RecordObserver
from spojoin.local.cluster import LocalCluster, local_cluster
from spojoin.local.services import Deployment, services_of
from spojoin.local.supervise import Supervisor
from spojoin.local.usage import usage_of
from spojoin.model import Query
from spojoin.ports.interfaces import LogPartition, SystemClock
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.redis_store import RedisStore
from spojoin.ports.shared_state import SharedState
from spojoin.protocol.generations import Beginning
from spojoin.protocol.grid import Grid
from spojoin.protocol.machine import ResultPosition
from spojoin.protocol.packing import ANSWERER_NAME, APART
from spojoin.protocol.result_partitions import partitions_of
from spojoin.protocol.services import names_from_one
from spojoin.protocol.topology import Role, Topic, mutable_partition
from spojoin.query.fingerprint import fingerprint
from spojoin.query.load import parse_query
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from spojoin.runtime.generations import GenerationsTopic
from spojoin.runtime.service import create_topics
from spojoin.runtime.topics import Topics
from spojoin.wire.codec import decode, encode
from spojoin.wire.records import Announcement, Batch, Frame, Part, Partial, Record

WORKLOAD = "uniform"
#: A joiner for each of the query's predicates.
JOINERS = 2
MUTABLE_JOINER = "mutable joiner"
#: Without progress for this long, a process has stopped.
STALL_S = 120.0
POLL_S = 0.05
CHECKED = 8


class Release(NamedTuple):
    """The workers of a release, how many logical ANDs and sinks it has, and which roles share a process."""

    grid: Grid
    logical_ands: int = 1
    sinks: int = 1
    packing: str = APART

    def __str__(self) -> str:
        return f"{self.grid.rows}x{self.grid.columns}-{self.logical_ands}-{self.sinks}-{self.packing}"

    @property
    def mutable_reporters(self) -> int:
        """How many services report the mutable part in turn."""
        return self.logical_ands if self.packing == APART else self.grid.workers


ALONE = Release(Grid(1, 1))
#: Releases that grow with rows of workers of one column each, and columns of one row beside them.
RELEASES = (ALONE, Release(Grid(2, 1)), Release(Grid(4, 1), 2, 2), Release(Grid(8, 1), 4, 4))
COLUMNS = (Release(Grid(1, 2)), Release(Grid(1, 8)))


class Written(NamedTuple):
    """A record of the run: its partition, and its bytes."""

    partition: int
    value: bytes


@dataclass(slots=True)
class Recording(RecordObserver):
    """All records of a run by topic, in order; `full` is how many each topic had when the window was full."""

    records: dict[Topic, list[Record]] = field(default_factory=lambda: defaultdict(list))
    full: dict[Topic, int] = field(default_factory=dict)

    def begun(self, record: Record) -> None:
        self.records[Topic.FRAMES].append(record)

    def written(self, topic: Topic, record: Record) -> None:
        if topic is not Topic.FRAMES:
            self.records[topic].append(record)

    def mark(self) -> None:
        """Note that the window is full."""
        self.full = {topic: len(records) for topic, records in self.records.items()}


def as_written(record: Record, release: Release) -> Written:
    """A record of the run as a release has it."""
    grid = release.grid
    if isinstance(record, Frame):
        return Written(0, encode(replace(record, workers=grid.workers, columns=grid.columns)))
    if isinstance(record, Partial):
        return Written(record.predicate, encode(record))
    if isinstance(record, Batch):
        return Written(record.stream, encode(record))
    if isinstance(record, Part):
        row, reporter = record.frame_id % grid.rows, record.frame_id % release.mutable_reporters
        partition = 1 + row if record.part else mutable_partition(reporter, grid.workers)
        return Written(partition, encode(record))
    return Written(0, encode(record))


@dataclass(frozen=True, slots=True)
class ScaleStage:
    """The broker and the store, the recorded run and its rows."""

    context: Context
    cluster: LocalCluster
    log: KafkaLog
    store: RedisStore
    data: Columns
    run: Recording

    @property
    def measured(self) -> int:
        """The tuples behind the full window."""
        return len(self.data) - self.context.sizes.window


def measure(context: Context) -> Iterator[Measurement]:
    """CPU of each process alone; the rate and the cost of a release with as many rows of workers."""
    sizes = context.sizes
    data = columns(WORKLOAD, sizes.window + sizes.services_after // 2)
    context.say("recording a run")
    run = recorded(data, sizes.window, sizes.slide)
    with local_cluster(context.say) as cluster:
        log, store = KafkaLog(KafkaConfig(cluster.broker.bootstrap)), RedisStore(cluster.redis.url)
        try:
            yield from _figures(ScaleStage(context, cluster, log, store, data, run))
        finally:
            log.close()
            store.close()


def recorded(data: Columns, window: int, slide: int) -> Recording:
    """A run over all rows, in which the window is full behind the first `window` of them."""
    query, run = self_join(window, slide), Recording()
    config = RouterConfig("recorded", credits_frames=UNLIMITED)
    engine = Engine(query, config, observe=lambda *_: run, beginning=Beginning(fingerprint=fingerprint(query)))
    for piece, is_full in ((data[:window], False), (data[window:], True)):
        if is_full:
            run.mark()
        for batch in piece.table().to_batches(MESSAGE_ROWS):
            deque(engine.feed(0, batch), 0)
        deque(engine.wait(), 0)
    engine.close()
    return run


def _figures(stage: ScaleStage) -> Iterator[Measurement]:
    whatever = {
        "router": _cpu_us(stage, ALONE, "router", partial(FramedTuples, topic=Topic.FRAMES), Topic.INPUT),
        MUTABLE_JOINER: max(_joiner(stage, number) for number in range(JOINERS)),
        "permutation": _cpu_us(stage, ALONE, "permutation", partial(SameRecords, topic=Topic.BATCHES), Topic.RUNS),
    }
    for name, cpu_us in whatever.items():
        yield Measurement(f"{name}: CPU", cpu_us, "us a tuple", note="whatever the release")
    logical_and = {count: _logical_and(stage, count) for count in sorted({each.logical_ands for each in RELEASES})}
    sinks: dict[Release, float] = {}
    for release in RELEASES:
        rows = release.grid.rows
        sinks[release] = _sink(stage, release)
        named = f"{rows} row{'s' * (rows > 1)} of workers"
        divided = {
            "PO-Join worker": (_worker(stage, release), rows),
            "logical AND": (logical_and[release.logical_ands], release.logical_ands),
            "sink": (sinks[release], release.sinks),
        }
        for name, (cpu_us, count) in divided.items():
            yield Measurement(f"{named}: CPU of a {name}, one of {count}", cpu_us, "us a tuple")
        yield from _of_release(named, _counted(whatever) | divided)
    for release in RELEASES:
        rows = release.grid.rows
        cpu_us = _worker(stage, release._replace(packing=ANSWERER_NAME, logical_ands=1))
        named = f"{rows} answerer{'s' * (rows > 1)}"
        yield Measurement(f"{named}: CPU of each", cpu_us, "us a tuple")
        services = _counted({name: each for name, each in whatever.items() if name != MUTABLE_JOINER})
        services |= {"answerer": (cpu_us, rows), "sink": (sinks[release], release.sinks)}
        yield from _of_release(named, services)
    for release in COLUMNS:
        yield Measurement(f"{release.grid.columns} columns: CPU of each worker", _worker(stage, release), "us a tuple")


def _counted(whatever: Mapping[str, float]) -> dict[str, tuple[float, int]]:
    """The CPU of each service that doesn't depend on the release, and how many there are."""
    return {name: (cpu_us, JOINERS if name == MUTABLE_JOINER else 1) for name, cpu_us in whatever.items()}


def _of_release(named: str, services: Mapping[str, tuple[float, int]]) -> Iterator[Measurement]:
    """The rate and the cost of a release; services: the CPU of each, and how many there are."""
    busiest = max(services, key=lambda name: services[name][0])
    yield Measurement(f"{named}: rate of the busiest process", 1e6 / services[busiest][0], "tuples/s", note=busiest)
    whole = sum(cpu_us * count for cpu_us, count in services.values())
    yield Measurement(f"{named}: CPU of all services", whole, "us a tuple", note="without the broker")


def _joiner(stage: ScaleStage, number: int) -> float:
    follow = partial(SameRecords, topic=Topic.PARTIALS, number=number)
    return _cpu_us(stage, ALONE, f"mutable-{number}", follow, Topic.FRAMES)


def _logical_and(stage: ScaleStage, count: int) -> float:
    """CPU of the first of several logical ANDs."""
    name, follow = names_from_one(Role.LOGICAL_AND, count)[0], partial(SameRecords, topic=Topic.MATCHES)
    return _cpu_us(stage, Release(ALONE.grid, count), name, follow, Topic.PARTIALS, Topic.FRAMES)


def _worker(stage: ScaleStage, release: Release) -> float:
    """CPU of a grid's first worker, which may be an answerer."""
    output = SameWorkersRecords if release.grid.columns == 1 else WorkersRecords
    follow = partial(output, topic=Topic.MATCHES, number=1)
    return _cpu_us(stage, release, "pojoin-0", follow, Topic.BATCHES, Topic.FRAMES)


def _sink(stage: ScaleStage, release: Release) -> float:
    """CPU of the first of several sinks."""
    name, follow = names_from_one(Role.SINK, release.sinks)[0], partial(AnsweredTuples, topic=Topic.RESULTS)
    return _cpu_us(stage, release, name, follow, Topic.MATCHES, Topic.BATCHES, Topic.FRAMES)


# --- a process alone --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Alone:
    """A process alone on its topics, and the release that it belongs to."""

    stage: ScaleStage
    release: Release
    query: Query
    topics: Topics

    def partition(self, topic: Topic, number: int = 0) -> LogPartition:
        """A partition of one of its topics."""
        name = f"in.{self.query.name}" if topic is Topic.INPUT else self.topics.name(topic)
        return LogPartition(name, number)

    def written(self, topic: Topic, *, is_full: bool) -> list[Written]:
        """What the run wrote to a topic before the window was full, or from then on."""
        run = self.stage.run
        full = run.full[topic]
        records = run.records[topic][full:] if is_full else run.records[topic][:full]
        return [as_written(record, self.release) for record in records]

    def give(self, topic: Topic, *, is_full: bool) -> None:
        """Append to a topic what it held before the window was full, or what followed."""
        if topic is Topic.INPUT:
            window = self.stage.context.sizes.window
            rows = self.stage.data[window:] if is_full else self.stage.data[:window]
            fill(self.stage.log, self.partition(topic), arrow_messages(rows))
            return
        by_partition: dict[int, list[bytes]] = defaultdict(list)
        for each in self.written(topic, is_full=is_full):
            by_partition[each.partition].append(each.value)
        for number, values in by_partition.items():
            fill(self.stage.log, self.partition(topic, number), values)


class WrittenAlone(ABC):
    """What a process writes, as far as it was read; `count`: of records or tuples."""

    def __init__(self, alone: Alone, topic: Topic, number: int = 0) -> None:
        self.count = 0
        self.topic = topic
        self.alone = alone
        self.reader = alone.stage.log.reader()
        self.reader.open(alone.partition(topic, number), 0)

    @abstractmethod
    def expected(self, *, is_full: bool) -> int:
        """The count before the window was full, or the whole."""

    @abstractmethod
    def read(self) -> None:
        """Read on, waiting for at most POLL_S."""

    def check(self) -> None:
        """Raise AssertionError if what was written is wrong, or more than expected."""
        if self.count > self.expected(is_full=True):
            raise AssertionError(f"{self.alone.query.name} writes {self.count:,} to {self.topic}, more than the run")

    def wait(self, tend: Callable[[], None], *, is_full: bool) -> None:
        """Read until the expected count; `tend` may raise errors. Raises RuntimeError without progress."""
        expected = self.expected(is_full=is_full)
        before, since_s = self.count, time.monotonic()
        while self.count < expected:
            tend()
            self.read()
            if self.count != before:
                before, since_s = self.count, time.monotonic()
            elif time.monotonic() - since_s > STALL_S:
                raise RuntimeError(f"{self.alone.query.name}: no progress for {STALL_S:.0f} s behind {before:,}")
        self.check()


class CountedRecords(WrittenAlone):
    """The records of a partition, as many as the run's: a column of several has others, since it has fewer batches."""

    def __init__(self, alone: Alone, topic: Topic, number: int = 0) -> None:
        super().__init__(alone, topic, number)
        self.wanted = [
            [value for at, value in alone.written(topic, is_full=is_full) if at == number] for is_full in (False, True)
        ]
        self.found: list[bytes] = []

    def expected(self, *, is_full: bool) -> int:
        return sum(map(len, self.wanted[: 1 + is_full]))

    def read(self) -> None:
        self.found += [record.value for record in self.reader.poll(1_000, POLL_S)]
        self.count = len(self.found)


class SameRecords(CountedRecords):
    """The records of a partition, which must be those of the run."""

    def check(self) -> None:
        if self.found != list(chain(*self.wanted))[: self.count]:
            raise AssertionError(f"{self.alone.query.name} writes other records to {self.topic} than the run")


class OthersResults:
    """Reports results of other processes as out, as if these ran beside the one that is alone.

    Otherwise a worker would keep all frames to stand in for other rows, and all would ask the topic for results.
    """

    def __init__(self, alone: Alone) -> None:
        failures = Counter("spojoin_scale_store_errors", "Operations that Redis did not answer.", registry=None)
        self._shares = partitions_of(alone.release.sinks)
        self._shared = SharedState(alone.stage.store, alone.query.name, SystemClock(), failures)
        self._shared.log_id = alone.stage.log.topic_id(alone.topics.name(Topic.FRAMES))

    def report(self, frame_id: int, own: Collection[int] = ()) -> None:
        """Report that results are out before a frame, but for the sinks `own`, which report themselves."""
        for share in self._shares:
            if share.number not in own:
                self._shared.put_result_position(share.next_owed(ResultPosition(frame_id, 0)), share)


class WorkersRecords(CountedRecords):
    """A worker's parts; the worker hears that results are out up to its next frame, as if other rows had answered."""

    def __init__(self, alone: Alone, topic: Topic, number: int = 0) -> None:
        super().__init__(alone, topic, number)
        self._others = OthersResults(alone)

    def read(self) -> None:
        super().read()
        part = decode(self.found[-1]) if self.found else None
        if isinstance(part, Part):
            self._others.report(part.frame_id + self.alone.release.grid.rows)


class SameWorkersRecords(WorkersRecords, SameRecords):
    """The same, where the parts must be those of the run."""


class FramedTuples(WrittenAlone):
    """The tuples in the router's frames, which may end elsewhere than the run's."""

    def expected(self, *, is_full: bool) -> int:
        return len(self.alone.stage.data) if is_full else self.alone.stage.context.sizes.window

    def read(self) -> None:
        for record in self.reader.poll(1_000, POLL_S):
            frame = decode(record.value)
            self.count += frame.count if isinstance(frame, Frame) else 0


class AnsweredTuples(WrittenAlone):
    """The tuples in the first sink's results, some of which are compared with a scan."""

    def __init__(self, alone: Alone, topic: Topic) -> None:
        super().__init__(alone, topic)
        self._tap = ResultsTap(self.reader, alone.partition(topic))
        self._others = OthersResults(alone)
        frames = [frame for frame in alone.stage.run.records[Topic.FRAMES] if isinstance(frame, Frame)]
        #: by frame, how many tuples this sink has answered behind it
        self._answered = np.cumsum([frame.count * self._is_ours(frame) for frame in frames])

    def _is_ours(self, frame: Frame) -> bool:
        return frame.frame_id % self.alone.release.sinks == 0

    def expected(self, *, is_full: bool) -> int:
        run = self.alone.stage.run
        frames = run.records[Topic.FRAMES][: None if is_full else run.full[Topic.FRAMES]]
        return sum(frame.count for frame in frames if isinstance(frame, Frame) and self._is_ours(frame))

    def read(self) -> None:
        self._tap.read()
        self.count = self._tap.tuples
        self._others.report(int(np.searchsorted(self._answered, self.count, "right")), own=(0,))

    def check(self) -> None:
        sizes = self.alone.stage.context.sizes
        counts = pa.Table.from_batches(self._tap.samples)
        check_counts(self.alone.stage.data, sizes.window, sizes.slide, counts, CHECKED)


#: Makes the output of a process from its topics.
Follow = Callable[[Alone], WrittenAlone]


def _cpu_us(stage: ScaleStage, release: Release, service: str, follow: Follow, *reads: Topic) -> float:
    """CPU microseconds a tuple behind the full window of a service that is alone; it reads `reads`."""
    name = f"scale-{service}-{release}"
    stage.context.say(f"{service} of {release.grid.rows} x {release.grid.columns} workers, alone")
    with _alone(stage, release, name) as alone, _started(alone, service) as supervisor:
        output, used_s = follow(alone), []
        for is_full in (False, True):
            for topic in reads:
                alone.give(topic, is_full=is_full)
            output.wait(supervisor.tend, is_full=is_full)
            usage = usage_of(supervisor.pids()[service])
            assert usage is not None, "the system reports what processes use"
            used_s.append(usage.cpu_s)
        output.reader.close()
        return (used_s[1] - used_s[0]) / stage.measured * 1e6


@contextmanager
def _alone(stage: ScaleStage, release: Release, name: str) -> Iterator[Alone]:
    """The topics of a query of its own, which is announced; they are deleted at the end."""
    sizes = stage.context.sizes
    query = parse_query(self_join_text(sizes.window, sizes.slide, name=name))
    counts = {"logical_ands": release.mutable_reporters, "sinks": release.sinks}
    topics = Topics.for_query(query, release.grid.workers, {"rows": f"in.{name}"}, **counts)
    create_topics(stage.log, topics)
    stage.log.create_topics({f"in.{name}": 1})
    GenerationsTopic(stage.log, name).write_record(
        Announcement(1, fingerprint(query), query.text, "window", sinks=release.sinks)
    )
    alone = Alone(stage, release, query, topics)
    try:
        yield alone
    finally:
        stage.log.delete_topics([alone.partition(topic).topic for topic in Topic])


@contextmanager
def _started(alone: Alone, service: str) -> Iterator[Supervisor]:
    context, servers = alone.stage.context, alone.stage.cluster.servers
    folder: Path = context.scratch
    query_file = folder / f"{alone.query.name}.yaml"
    query_file.write_text(alone.query.text)
    deployment = Deployment(
        alone.query,
        query_file,
        servers.bootstrap,
        servers.redis_url,
        alone.release.grid.workers,
        {
            "columns": str(alone.release.grid.columns),
            "logical_ands": str(alone.release.logical_ands),
            "sinks": str(alone.release.sinks),
            "credits_frames": "1000000",
            "input_topics": f'{{"rows": "in.{alone.query.name}"}}',
        },
        packing=alone.release.packing,
    )
    (found,) = [each for each in services_of(deployment) if each.name == service]
    with Supervisor(servers.children, folder / f"{alone.query.name}-logs") as supervisor:
        supervisor.start([found])
        yield supervisor
