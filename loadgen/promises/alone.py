"""A process of a release alone on a broker whose topics hold what it reads: its processor time and its memory."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from prometheus_client import Counter

from loadgen.load.figures import reported
from loadgen.load.tap import ResultsTap
from loadgen.promises.recording import Recording, Release, ScaleWork, Written, as_written
from loadgen.promises.serving import MESSAGE_ROWS, append_all, arrow_messages, fill
from loadgen.promises.sizes import Context
from spojoin.local.cluster import LocalCluster
from spojoin.local.services import Deployment, services_of
from spojoin.local.supervise import Supervisor
from spojoin.local.usage import usage_of
from spojoin.model import Query
from spojoin.ports.interfaces import LogPartition, LogRecord, SystemClock
from spojoin.ports.kafka import KafkaLog
from spojoin.ports.redis_store import RedisStore
from spojoin.ports.shared_state import SharedState
from spojoin.protocol.blocks import blocks_of
from spojoin.protocol.machine import ResultPosition
from spojoin.protocol.result_partitions import partitions_of
from spojoin.protocol.topology import Topic
from spojoin.query.fingerprint import fingerprint
from spojoin.reading.parse import NO_SCHEMAS, parser
from spojoin.runtime.generations import GenerationsTopic
from spojoin.runtime.service import create_topics
from spojoin.runtime.topics import Topics
from spojoin.wire.codec import decode, encode
from spojoin.wire.records import Announcement, Block, Frame, Part, Positions, SourcePosition

#: Without progress for this long, a process has stopped.
STALL_S = 120.0
POLL_S = 0.05
#: After this time, what a process reports of itself is what it had at the end.
REPORTED_S = 2.5


@dataclass(frozen=True, slots=True)
class ScaleStage:
    """The broker and the store; the work, and its recorded run."""

    context: Context
    cluster: LocalCluster
    log: KafkaLog
    store: RedisStore
    work: ScaleWork
    run: Recording


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

    def written(self, topic: Topic, *, is_measured: bool) -> list[Written]:
        """What the run wrote to a topic since measuring began, or before."""
        return [as_written(each, self.release) for each in self.stage.run.part_of(topic, is_measured=is_measured)]

    def give(self, topic: Topic, *, is_measured: bool) -> None:
        """Append to a topic what it held before measuring began, or what followed."""
        if topic in (Topic.INPUT, Topic.BLOCKS):
            work = self.stage.work
            rows = work.rows[work.before :] if is_measured else work.rows[: work.before]
            of_blocks = self._blocks(rows, -(-work.before // MESSAGE_ROWS) if is_measured else 0)
            fill(self.stage.log, self.partition(topic), work.messages(rows) if topic is Topic.INPUT else of_blocks)
            return
        written = self.written(topic, is_measured=is_measured)
        append_all(self.stage.log, [(self.partition(topic, each.partition), each.value) for each in written])

    def _blocks(self, rows: pa.Table, first: int) -> Iterator[bytes]:
        """The blocks of an intake that reads these rows in Arrow messages, from offset `first` on."""
        parse = parser(self.query, NO_SCHEMAS)
        for offset, message in enumerate(arrow_messages(rows), start=first):
            record = LogRecord(self.partition(Topic.INPUT), offset, 0, message, ())
            yield from map(encode, blocks_of(0, 0, (offset, 0), parse(0, 0, [record])))


# --- what it writes ---------------------------------------------------------------------------------------------------


class WrittenAlone(ABC):
    """What a process writes, as far as it was read; `count`: of records or rows."""

    def __init__(self, alone: Alone, topic: Topic, number: int = 0) -> None:
        self.count = 0
        self.topic = topic
        self.alone = alone
        self.reader = alone.stage.log.reader()
        self.reader.open(alone.partition(topic, number), 0)

    @abstractmethod
    def expected(self, *, is_measured: bool) -> int:
        """The count before measuring began, or the whole."""

    @abstractmethod
    def read(self) -> None:
        """Read on, waiting for at most POLL_S."""

    def check(self) -> None:
        """Raise AssertionError if what was written is wrong, or more than expected."""
        if self.count > self.expected(is_measured=True):
            raise AssertionError(f"{self.alone.query.name} writes {self.count:,} to {self.topic}, more than the run")

    def wait(self, tend: Callable[[], None], *, is_measured: bool) -> None:
        """Read until the expected count; `tend` may raise errors. Raises RuntimeError without progress."""
        expected = self.expected(is_measured=is_measured)
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
    """The records of a partition, as many as the run's: a column of several has others, since it has fewer tuples."""

    def __init__(self, alone: Alone, topic: Topic, number: int = 0) -> None:
        super().__init__(alone, topic, number)
        self.wanted = [
            [value for at, value in alone.written(topic, is_measured=is_measured) if at == number]
            for is_measured in (False, True)
        ]
        self.found: list[bytes] = []

    def expected(self, *, is_measured: bool) -> int:
        return sum(map(len, self.wanted[: 1 + is_measured]))

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


class ColumnsRecords(WorkersRecords):
    """The parts of a column of several, in one row of workers: as many as the run's parts of all workers."""

    def __init__(self, alone: Alone, topic: Topic, number: int) -> None:
        super().__init__(alone, topic, number)
        self.wanted = [
            [value for at, value in alone.written(topic, is_measured=is_measured) if at == 1]
            for is_measured in (False, True)
        ]

    def counts(self) -> dict[int, np.ndarray]:
        """By frame, the matches of each of its probes and directions, int64 (directions, n)."""
        parts = [part for part in map(decode, self.found) if isinstance(part, Part)]
        return {part.frame_id: np.stack([each.counts for each in part.directions]) for part in parts}


class FramedTuples(WrittenAlone):
    """The tuples in the router's frames, which may end elsewhere than the run's."""

    def expected(self, *, is_measured: bool) -> int:
        frames = self.alone.stage.run.frames(is_measured=False)
        return sum(frame.count for frame in frames) + (self.alone.stage.run.measured if is_measured else 0)

    def read(self) -> None:
        for record in self.reader.poll(1_000, POLL_S):
            frame = decode(record.value)
            self.count += frame.count if isinstance(frame, Frame) else 0


#: An offset that no input reaches.
FAR = SourcePosition(1 << 60, 0, 0)


class IntakesRows(WrittenAlone):
    """The rows in an intake's blocks; the intake hears that the router takes them all."""

    def __init__(self, alone: Alone, topic: Topic) -> None:
        super().__init__(alone, topic)
        self._say(Positions({}))

    def _say(self, positions: Positions) -> None:
        fill(self.alone.stage.log, self.alone.partition(Topic.POSITIONS), [encode(positions)])

    def expected(self, *, is_measured: bool) -> int:
        work = self.alone.stage.work
        return len(work.rows) if is_measured else work.before

    def read(self) -> None:
        before = self.count
        for record in self.reader.poll(1_000, POLL_S):
            block = decode(record.value)
            self.count += len(block) if isinstance(block, Block) else 0
        if before == 0 < self.count:
            self._say(Positions({(0, 0): FAR}))


class SinksAnswers(WrittenAlone):
    """The answers in the first sink's results, some of which are compared with a scan."""

    def __init__(self, alone: Alone, topic: Topic) -> None:
        super().__init__(alone, topic)
        self._tap = ResultsTap(self.reader, alone.partition(topic))
        self._others = OthersResults(alone)
        run = alone.stage.run
        self._before, measured = (
            sum(map(self._own_answers, run.frames(is_measured=is_measured))) for is_measured in (False, True)
        )
        self._whole = self._before + measured
        frames = [*run.frames(is_measured=False), *run.frames(is_measured=True)]
        #: by frame, how many rows this sink has answered behind it
        self._answered = np.cumsum(list(map(self._own_answers, frames)))

    def _own_answers(self, frame: Frame) -> int:
        return 0 if frame.frame_id % self.alone.release.sinks else frame.answers

    def expected(self, *, is_measured: bool) -> int:
        return self._whole if is_measured else self._before

    def read(self) -> None:
        self._tap.read()
        self.count = self._tap.tuples
        self._others.report(int(np.searchsorted(self._answered, self.count, "right")), own=(0,))

    def check(self) -> None:
        self.alone.stage.work.check(pa.Table.from_batches(self._tap.samples))


# --- the process ------------------------------------------------------------------------------------------------------

#: Makes the output of a process from its topics.
Follow = Callable[[Alone], WrittenAlone]


class Spent(NamedTuple):
    """What a process has used: seconds of processor time before measuring began and since, memory, and its own figures.

    figures: the sum of each metric's samples by its name, after REPORTED_S; empty unless asked for
    """

    before_s: float
    measured_s: float
    peak_rss_bytes: int
    figures: dict[str, float]
    output: WrittenAlone


def cpu_us(stage: ScaleStage, release: Release, service: str, follow: Follow, *reads: Topic) -> float:
    """The least processor time of several runs of a service that is alone, in microseconds a row; it reads `reads`."""
    runs = [spent(stage, release, service, follow, *reads, run=run) for run in range(stage.context.sizes.scale_runs)]
    return min(each.measured_s for each in runs) / stage.run.measured * 1e6


def spent(
    stage: ScaleStage,
    release: Release,
    service: str,
    follow: Follow,
    *reads: Topic,
    run: int = 0,
    has_figures: bool = False,
) -> Spent:
    """What a service that is alone uses to read the topics `reads` to their ends.

    run: distinguishes its runs; has_figures: whether its own figures are wanted
    """
    grid = release.grid
    stage.context.say(f"{stage.work.name}: {service} of {grid.rows} x {grid.columns} workers, alone")
    name = f"scale-{stage.work.name}-{service}-{release}-{run}"
    with _alone(stage, release, name) as alone, _started(alone, service) as supervisor:
        output, used = follow(alone), []
        for is_measured in (False, True):
            for topic in reads:
                alone.give(topic, is_measured=is_measured)
            output.wait(supervisor.tend, is_measured=is_measured)
            usage = usage_of(supervisor.pids()[service])
            assert usage is not None, "the system reports what processes use"
            used.append(usage)
        output.reader.close()
        figures = _reported(supervisor.services()[service].port) if has_figures else {}
        before_s = used[0].cpu_s
        return Spent(before_s, used[1].cpu_s - before_s, used[1].peak_rss_bytes, figures, output)


def _reported(port: int) -> dict[str, float]:
    time.sleep(REPORTED_S)
    return reported(port)


@contextmanager
def _alone(stage: ScaleStage, release: Release, name: str) -> Iterator[Alone]:
    """The topics of a query of its own, which is announced; they are deleted at the end."""
    query = stage.work.query(name)
    counts = {"logical_ands": release.mutable_reporters, "sinks": release.sinks, "intakes": release.intakes}
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
            **alone.release.settings,
            "credits_frames": "1000000",
            "input_topics": f'{{"rows": "in.{alone.query.name}"}}',
        },
        packing=alone.release.packing,
    )
    (found,) = [each for each in services_of(deployment) if each.name == service]
    with Supervisor(servers.children, folder / f"{alone.query.name}-logs") as supervisor:
        supervisor.start([found])
        yield supervisor
