"""What a life reads, and how far: the log, the results' end, the users' inputs and the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from spojoin.errors import ConfigurationError, WireError
from spojoin.ports.interfaces import LogPartition, LogReader, LogRecord, LogUnavailable
from spojoin.protocol.machine import InputMachine, Machine
from spojoin.protocol.packing import records_read
from spojoin.protocol.retention import RESTORE_ADVICE
from spojoin.protocol.topology import Topic
from spojoin.runtime.feeds import InputEnds, InputFeed, Parse, TableFeed
from spojoin.runtime.loop_spec import LoopSpec, Surroundings
from spojoin.runtime.outbox import POLL_S
from spojoin.runtime.read_ahead import ReadAhead, WaitingRecords
from spojoin.runtime.result_position import ResultsEnds
from spojoin.wire.codec import decode
from spojoin.wire.records import Barrier, Frame, Record

TAIL_TIMEOUT_S = 30.0
#: how many of a service's beats are kept: a few seconds' worth
BEATS_KEPT = 200


def check_query(topic: str, offset: int, record: Record, fingerprint: int) -> None:  # P12.1
    """Raise ConfigurationError if the log was written for a query of another meaning.

    `fingerprint` 0 compares none, and neither does a record of an older log, which has no fingerprint.
    """
    if not fingerprint or not isinstance(record, Frame | Barrier):
        return
    if record.fingerprint not in (0, fingerprint):
        raise ConfigurationError(
            f"{topic} offset {offset}: the log was written for a query that means something else (fingerprint "
            f"{record.fingerprint:x}, this query's is {fingerprint:x}): serve the query that wrote it, or delete the "
            "query's internal topics"
        )


class Inflow:
    """What one life reads of the log, and the feeds of the users' inputs and of the table, if it has them."""

    def __init__(self, spec: LoopSpec, world: Surroundings) -> None:
        self._spec = spec
        self._world = world
        self._log_ahead = ReadAhead(world.log.reader(), world.clock)
        topics = spec.topics
        self.results = ResultsEnds(
            world.log, self._log_ahead.reader, topics.name(Topic.RESULTS), topics.generation, topics.result_partitions
        )
        self.feed: InputFeed | InputEnds | None = None
        self.table: TableFeed | None = None
        self._topics: dict[str, Topic] = {}
        self._targets: dict[LogPartition, int] = {}
        self._ids: dict[str, str] = {}
        self._beats_trimmed = 0

    def bind(self) -> None:
        """Find the results' end (L2), and bind this life to its topics (L9).

        Raises LogUnavailable if a newer generation's results exist; if this lasts, its topic has lost records.
        """
        topics = self._spec.topics
        self.results.find(TAIL_TIMEOUT_S, self._world.clock)
        if (newest := self.results.newest_generation) > topics.generation:
            raise LogUnavailable(
                f"results are of generation {newest}, and topic {topics.name(Topic.GENERATIONS)} knows "
                f"{topics.generation} at most: if that stays so, it has lost records: {RESTORE_ADVICE}"
            )
        self._ids = self._find_ids()

    def check_topics(self) -> None:
        """L9."""
        found = self._find_ids()
        if changed := [topic for topic, known in self._ids.items() if found.get(topic) != known]:
            raise LogUnavailable(f"deleted, and made anew: {', '.join(changed)}; what results need of it is said again")
        self._ids = found

    def _find_ids(self) -> dict[str, str]:
        """The ids of the topics that this life is bound to."""
        topics, edge = self._spec.topics, self._spec.edge
        own = {topics.name(topic) for topic in (*edge.reads, *edge.writes) if topic not in (Topic.INPUT, Topic.DEAD)}
        return self._world.log.topic_ids(sorted(own.union(topics.inputs if Topic.INPUT in edge.reads else ())))

    def open(self, machine: Machine) -> None:
        """Open everything that a machine reads; what the log holds now is to be caught up with (L3)."""
        spec, world = self._spec, self._world
        router = cast("InputMachine", machine)
        if spec.parse is not None:
            self.feed = self._feed(router, spec.parse)
        if spec.table is not None:
            self.table = TableFeed(world.log, router, spec.topics.table, spec.table(), world.clock)
        self.open_partitions()
        self._targets = {source: world.log.end(source) for source in self._log_ahead.waiting}

    def _feed(self, machine: InputMachine, parse: Parse) -> InputFeed | InputEnds:
        world, inputs = self._world, self._spec.topics.flowing
        if Topic.BLOCKS in self._spec.edge.reads:
            if self._spec.originals is not None:
                self._spec.originals.open(world.log, inputs)
            return InputEnds(world.log, machine, inputs, world.clock)
        feed = InputFeed(world.log, machine, inputs, parse, world.clock, world.metrics.read)
        feed.on_taken = world.reporter.hops.took_rows
        return feed

    def open_partitions(self) -> None:
        """L3. Later calls open added partitions, which more workers bring."""
        for topic in records_read(self._spec.edge):
            name = self._spec.topics.name(topic)
            self._topics[name] = topic
            for partition in range(self._world.log.partitions(name)):
                if (source := LogPartition(name, partition)) not in self._log_ahead.waiting:
                    self._log_ahead.open(source, self._world.log.bounds(source).earliest)
        if (beats := self._beats()) is not None:
            self._topics[beats.topic] = Topic.PRESENCE
            if beats not in self._log_ahead.waiting:  # if there is a speaker, its beats are among the last
                bounds = self._world.log.bounds(beats)
                self._log_ahead.open(beats, max(bounds.earliest, bounds.end - BEATS_KEPT))

    def _beats(self) -> LogPartition | None:
        presence = self._spec.presence
        return None if presence is None else LogPartition(self._spec.topics.name(Topic.PRESENCE), presence)

    def receive(self, wait_s: float) -> None:
        """Wait for the source of the next record: the users' inputs once they are open, until then the log."""
        if self.feed is not None:
            self.feed.refresh()
            if self.feed.ahead is not None and self.feed.ahead.waiting:
                self.feed.ahead.fill(wait_s)
                wait_s = 0.0
        self.results.accept_records(self._log_ahead.fill(wait_s))

    def read_results(self) -> None:
        """Read the results' end again, and wait for it (L8)."""
        self.results.begin_reading()
        while self.results.is_reading:
            self.results.accept_records(self._log_ahead.fill(POLL_S, even_full=True))

    def take_records(self, machine: Machine) -> Iterator[tuple[Topic, int, int, Record]]:
        """Take a record of each input that the machine wants: its topic, partition and offset, and what it says."""
        for source in list(self._log_ahead.waiting):
            queue = self._log_ahead.waiting[source]  # looked up now, since a rewind replaces it with an empty one
            topic = self._topics[source.topic]
            if queue.records and machine.wants(topic, source.partition):
                yield topic, source.partition, *self._decode(topic, queue.take_oldest())

    def _decode(self, topic: Topic, record: LogRecord[bytes]) -> tuple[int, Record]:
        source, offset = record.input, record.offset
        try:
            decoded = decode(record.value)
        except WireError as error:  # L6
            raise WireError(f"{source.topic}[{source.partition}] offset {offset}: {error}") from error
        check_query(source.topic, offset, decoded, self._spec.fingerprint)
        self._world.metrics.read.count(topic.value, len(record.value))
        self._world.reporter.saw(source.partition, offset, decoded, record.timestamp_ms)
        return offset, decoded

    def rewind(self, topic: Topic) -> None:
        """L7: read a topic again from its earliest retained record, up to its present end to be caught up again."""
        for source in list(self._log_ahead.waiting):
            if self._topics[source.topic] is topic:
                bounds = self._world.log.bounds(source)
                self._log_ahead.open(source, bounds.earliest)
                self._targets[source] = bounds.end

    def have_caught_up(self) -> bool:
        """Whether the log was read up to where it ended at the start, or at a rewind."""
        self._targets = {s: end for s, end in self._targets.items() if not self._log_ahead.has_passed(s, end)}
        return not self._targets

    @property
    def missing(self) -> list[str]:
        """The topics of inputs and table that don't exist."""
        return [topic for feed in self._feeds() for topic in feed.missing]

    def needless_beats(self) -> dict[LogPartition, int]:
        """Where to trim the service's beats, once there are twice as many as are kept."""
        beats = self._beats()
        if beats is None:
            return {}
        needless = self._log_ahead.reader.position(beats) - BEATS_KEPT
        if needless < self._beats_trimmed + BEATS_KEPT:
            return {}
        self._beats_trimmed = needless
        return {beats: needless}

    def measure(self, machine: Machine) -> None:
        """Report each input's lag; batches that the machine no longer wants don't count."""
        metrics = self._world.metrics
        for source, queue, reader in self._queues():
            topic = self._topics.get(source.topic, Topic.INPUT)
            is_read_on = topic is not Topic.BATCHES or machine.wants(topic, source.partition)
            lag = reader.lag(source) + len(queue.records) if is_read_on else 0
            metrics.lag.labels(source.topic, source.partition).set(lag)
        metrics.waiting.set(sum(len(queue.records) for _, queue, _ in self._queues()))

    def positions(self) -> dict[str, int]:
        """How far each input was taken."""
        return {
            f"{source.topic}/{source.partition}": reader.position(source) - len(queue.records)
            for source, queue, reader in self._queues()
        }

    def close(self) -> None:
        """Close all readers."""
        self._log_ahead.reader.close()
        for feed in self._feeds():
            feed.close()
        if self._spec.originals is not None:
            self._spec.originals.close()

    def _feeds(self) -> list[InputFeed | InputEnds | TableFeed]:
        return [feed for feed in (self.feed, self.table) if feed is not None]

    def _queues(self) -> Iterator[tuple[LogPartition, WaitingRecords, LogReader[bytes]]]:
        aheads = [self._log_ahead, *(feed.ahead for feed in self._feeds() if feed.ahead is not None)]
        for ahead in aheads:
            for source, queue in ahead.waiting.items():
                yield source, queue, ahead.reader
