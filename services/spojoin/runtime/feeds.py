"""How the users' input topics and the query's table reach the router's machine."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import structlog

from spojoin.errors import Retryable
from spojoin.ports.interfaces import Clock, Log, LogPartition, LogRecord
from spojoin.protocol.machine import Action, InputMachine, TableRows
from spojoin.protocol.retention import stop_for_loss
from spojoin.protocol.topology import Topic
from spojoin.runtime.read_ahead import ReadAhead
from spojoin.telemetry.metrics import TopicTraffic
from spojoin.wire.records import Rows, SourcePosition

#: how often to look for new partitions
DISCOVERY_MS = 2_000
#: how often to look up the end of an input that seems to be idle
ASK_MS = 20
#: how many records are parsed at once at most
CHUNK_RECORDS_MAX = 4_096
CHUNK_BYTES_MAX = 1 << 20

#: (stream, partition, messages) -> the rows in them
Parse = Callable[[int, int, Sequence[LogRecord[bytes]]], Rows]

_log = structlog.get_logger(__name__)


class InputPartitions:
    """Finds the partitions of the input topics, and looks up their ends.

    ahead: what was read of them, if they are read here
    """

    ahead: ReadAhead | None = None

    def __init__(self, log: Log[bytes], machine: InputMachine, topics: Sequence[str], clock: Clock) -> None:
        self._log = log
        self._machine = machine
        self._topics = topics
        self._clock = clock
        self._known: list[tuple[int, int]] = []
        self._discover_at_ms = 0.0
        #: when an input's end was last looked up
        self._asked_ms: dict[LogPartition, float] = {}

    @property
    def missing(self) -> list[str]:
        """Input topics that don't exist."""
        found = {stream for stream, _ in self._known}
        return [topic for stream, topic in enumerate(self._topics) if stream not in found]

    def refresh(self) -> None:
        """Declare new partitions."""
        if self._clock.monotonic_ms() >= self._discover_at_ms:
            self._discover_at_ms = self._clock.monotonic_ms() + DISCOVERY_MS
            self._discover()

    def _discover(self) -> None:
        found = [
            (stream, partition)
            for stream, topic in enumerate(self._topics)
            for partition in range(self._log.partitions(topic))
        ]
        if found != self._known:
            self._known = found
            self._machine.on_inputs(found)
            _log.info("inputs found", partitions=len(found), missing=self.missing)

    def _find_end(self, source: LogPartition) -> int | None:
        """The end of an input; None if it was looked up a moment ago."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._asked_ms.get(source, -math.inf) + ASK_MS:
            return None
        self._asked_ms[source] = now_ms
        return self._log.end(source)

    def close(self) -> None:
        """Close the reader, if there is one."""
        if self.ahead is not None:
            self.ahead.reader.close()


class InputEnds(InputPartitions):
    """Notes the ends of inputs whose rows come to the machine in blocks (P23)."""

    def __init__(self, log: Log[bytes], machine: InputMachine, topics: Sequence[str], clock: Clock) -> None:
        super().__init__(log, machine, topics, clock)
        self._ends: dict[LogPartition, int] = {}

    def has_work(self) -> bool:
        """Whether `give_rows` would give rows to the machine: never."""
        return False

    def give_rows(self) -> Iterator[Action]:
        """Note which inputs are at their ends; the known end of one that would count as idle may be old."""
        for stream, partition in self._known if self._machine.active else ():
            source, taken = LogPartition(self._topics[stream], partition), self._machine.taken_to(stream, partition)
            if source not in self._ends or self._machine.doubts_end(stream, partition):
                end = self._find_end(source)
                if end is None:
                    continue
                self._ends[source] = end
            is_ended = taken is not None and taken >= self._ends[source]  # P23.6
            self._machine.on_input_end(stream, partition, ended=is_ended)
        yield from ()

    def waits_since_ms(self) -> int | None:
        """When the oldest record of a block was produced that no frame has passed, ms since 1970."""
        return self._machine.waits_since_ms()


class InputFeed(InputPartitions):
    """Reads the inputs' partitions from the log's positions on, and feeds the machine."""

    def __init__(
        self,
        log: Log[bytes],
        machine: InputMachine,
        topics: Sequence[str],
        parse: Parse,
        clock: Clock,
        traffic: TopicTraffic,
    ) -> None:
        super().__init__(log, machine, topics, clock)
        self.ahead: ReadAhead = ReadAhead(log.reader(), clock)
        self._traffic = traffic
        self._parse = parse
        self._own: list[tuple[int, int]] = []
        self._opened: dict[tuple[int, int], LogPartition] = {}
        #: for each input, the chunks given to the machine: last offset, and when the first record was produced
        self._given: dict[tuple[int, int], deque[tuple[int, int]]] = {}
        #: called for each chunk with the times at which its first and last record were produced, ms since 1970
        self.on_taken: Callable[[int, int], None] | None = None

    def refresh(self) -> None:
        """Declare new partitions, and open those that the machine reads once it is active."""
        super().refresh()
        if self._machine.active and len(self._opened) < len(self._own):
            self._open()

    def _discover(self) -> None:
        super()._discover()
        self._own = [key for key in self._known if self._machine.reads_input(*key)]

    def give_rows(self) -> Iterator[Action]:
        """Give the machine one chunk of each wanted input with records; yield the machine's actions."""
        for (stream, partition), source in self._opened.items():
            queue = self.ahead.waiting[source]
            if queue.records and self._machine.wants_rows(stream, partition):
                chunk, size = queue.take_records(CHUNK_RECORDS_MAX, CHUNK_BYTES_MAX)
                self._given[stream, partition].append((chunk[-1].offset, chunk[0].timestamp_ms))
                self._traffic.count(Topic.INPUT.value, size, len(chunk))
                if self.on_taken is not None:
                    self.on_taken(chunk[0].timestamp_ms, chunk[-1].timestamp_ms)
                yield from self._machine.on_rows(stream, partition, self._parse(stream, partition, chunk))
            else:
                yield from self._note_end(stream, partition, source)

    def _note_end(self, stream: int, partition: int, source: LogPartition) -> Iterator[Action]:
        """Note whether an input is at its end; look up its end before it counts as idle: the known end may be old."""
        ended = self.ahead.is_drained(source)
        if ended:
            yield from self._machine.on_position(stream, partition, self.ahead.reader.position(source))
        if ended and self._machine.doubts_end(stream, partition):
            end = self._find_end(source)
            if end is None:
                return
            ended = self.ahead.has_passed(source, end)
        self._machine.on_input_end(stream, partition, ended=ended)

    def has_work(self) -> bool:
        """Whether `give_rows` would give rows to the machine."""
        return any(
            self.ahead.waiting[source].records and self._machine.wants_rows(*key)
            for key, source in self._opened.items()
        )

    def waits_since_ms(self) -> int | None:
        """When the oldest record was produced that no frame has passed, ms since 1970; None if none waits.

        The precision is a chunk of records that was given to the machine at once.
        """
        positions = self._machine.sources()
        oldest = [self._oldest_ms(key, positions.get(key)) for key in self._opened]
        return min((at for at in oldest if at is not None), default=None)

    def _oldest_ms(self, key: tuple[int, int], at: SourcePosition | None) -> int | None:
        given, queue = self._given[key], self.ahead.waiting[self._opened[key]]
        while given and at is not None and given[0][0] < at.offset:
            given.popleft()
        if given:
            return given[0][1]
        return queue.records[0].timestamp_ms if queue.records else None

    def _open(self) -> None:
        positions = self._machine.sources()
        for stream, partition in self._own:
            if (stream, partition) not in self._opened:
                source = LogPartition(self._topics[stream], partition)
                at = positions.get((stream, partition))
                self.ahead.open(source, self._start(source, None if at is None else at.offset))
                self._opened[stream, partition] = source
                self._given[stream, partition] = deque()

    def _start(self, source: LogPartition, wanted: int | None) -> int:
        earliest, end = self._log.bounds(source)
        if wanted is not None and wanted > end:
            raise stop_for_loss(
                f"input {source.topic}, partition {source.partition}, was read to offset {wanted:,} and ends at {end:,}"
            )
        if wanted is not None and wanted < earliest:
            _log.error("input records are lost", topic=source.topic, wanted=wanted, earliest=earliest)
        return earliest if wanted is None else max(wanted, earliest)


class TableReading(Protocol):
    """Makes rows of a table's messages, or has the rows already.

    refresh_ms: how long changes are gathered before they make a version
    """

    refresh_ms: int

    def add_messages(self, partition: int, messages: Sequence[LogRecord[bytes]]) -> None:
        """Take the next messages of a partition, at least one."""
        ...

    def version(self) -> TableRows:
        """The table as it is now."""
        ...


class TableFeed:
    """Gives the machine the first version once the topic was read up to its end at the start, and later its changes.

    A topic without any message has no version yet. topic: None if the reading has all rows
    """

    def __init__(
        self, log: Log[bytes], machine: InputMachine, topic: str | None, reading: TableReading, clock: Clock
    ) -> None:
        self.ahead = ReadAhead(log.reader(), clock)
        self._log = log
        self._machine = machine
        self._topic = topic
        self._reading = reading
        self._clock = clock
        self._targets: dict[LogPartition, int] | None = None
        self._is_whole = False
        self._changed_at_ms: float | None = None
        self._discover_at_ms = 0.0

    @property
    def missing(self) -> list[str]:
        """The topic, if it doesn't exist."""
        return [self._topic] if self._topic is not None and self._machine.active and self._targets is None else []

    def give_version(self) -> Iterator[Action]:
        """Give the machine a version that is due; yield the machine's actions."""
        if not self._machine.active:
            return
        if self._topic is not None:
            self._read(self._topic)
        if self._is_due():
            self._is_whole, self._changed_at_ms = True, None
            version = self._reading.version()
            _log.info("table read", rows=len(version.rows), content=f"{version.content:016x}")
            yield from self._machine.on_table(version)

    def close(self) -> None:
        self.ahead.reader.close()

    def _is_due(self) -> bool:
        if not self._is_whole and (self._topic is None or self._targets is None or any(self._targets.values())):
            ends = {} if self._topic is None else self._targets
            return ends is not None and all(self.ahead.has_passed(source, end) for source, end in ends.items())
        changed = self._changed_at_ms
        return changed is not None and self._clock.monotonic_ms() - changed >= self._reading.refresh_ms

    def _read(self, topic: str) -> None:
        if (now_ms := self._clock.monotonic_ms()) >= self._discover_at_ms:
            self._discover_at_ms = now_ms + DISCOVERY_MS
            self._discover(topic)
        if self._targets is None:
            return
        self.ahead.fill(0.0)
        for source, queue in self.ahead.waiting.items():
            if queue.records:
                self._reading.add_messages(source.partition, queue.take_records(CHUNK_RECORDS_MAX, CHUNK_BYTES_MAX)[0])
                self._changed_at_ms = self._changed_at_ms or now_ms

    def _discover(self, topic: str) -> None:
        """Open the partitions; if there are more than before, keys have moved, and the table is read again."""
        sources = [LogPartition(topic, partition) for partition in range(self._log.partitions(topic))]
        if self._targets is not None and len(sources) > len(self._targets):
            raise Retryable(f"the table's topic {topic} has more partitions than before, and is read anew")
        if sources and self._targets is None:
            self._targets = {source: self._log.end(source) for source in sources}
            for source in sources:
                self.ahead.open(source, self._log.bounds(source).earliest)
