"""The users' input topics, on their way into the router's machine."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import structlog

from spojoin.ports.interfaces import Clock, Log, LogPartition, LogRecord
from spojoin.protocol.losses import lost
from spojoin.protocol.machine import Action, InputMachine
from spojoin.protocol.topology import Topic
from spojoin.runtime.intake import Intake
from spojoin.telemetry.metrics import TopicTraffic
from spojoin.wire.records import Rows, SourcePosition

#: how often new partitions are looked for
DISCOVERY_MS = 2_000
#: how often the log is asked where an input ends that seems to be idle
ASK_MS = 20
#: the most that is parsed at once
CHUNK_RECORDS_MAX = 4_096
CHUNK_BYTES_MAX = 1 << 20

#: (stream, partition, messages) -> the rows in them
Parse = Callable[[int, int, Sequence[LogRecord[bytes]]], Rows]

_log = structlog.get_logger(__name__)


class InputFeed:
    """Finds the partitions of the input topics, reads them on from where the log says, and feeds the machine."""

    def __init__(
        self,
        log: Log[bytes],
        machine: InputMachine,
        topics: Sequence[str],
        parse: Parse,
        clock: Clock,
        traffic: TopicTraffic,
    ) -> None:
        self._traffic = traffic
        self.intake = Intake(log.reader(), clock)
        self._log = log
        self._machine = machine
        self._topics = topics
        self._parse = parse
        self._clock = clock
        self._known: list[tuple[int, int]] = []
        self._opened: dict[tuple[int, int], LogPartition] = {}
        #: of each input the chunks given to the machine, by their last offset, and when their first record was produced
        self._given: dict[tuple[int, int], deque[tuple[int, int]]] = {}
        self._discover_at_ms = 0.0
        #: when the log was last asked where an input ends
        self._asked_ms: dict[LogPartition, float] = {}
        #: told of each chunk: when its first and its last record were produced, ms since 1970
        self.on_taken: Callable[[int, int], None] | None = None

    @property
    def missing(self) -> list[str]:
        """Input topics that do not exist."""
        found = {stream for stream, _ in self._known}
        return [topic for stream, topic in enumerate(self._topics) if stream not in found]

    def refresh(self) -> None:
        """Declare new partitions, and open the declared ones once the machine is active."""
        if self._clock.monotonic_ms() >= self._discover_at_ms:
            self._discover_at_ms = self._clock.monotonic_ms() + DISCOVERY_MS
            self._discover()
        if self._machine.active and len(self._opened) < len(self._known):
            self._open()

    def feed(self) -> Iterator[Action]:
        """Give the machine one chunk of each wanted input that has records; yield what it emits."""
        for (stream, partition), source in self._opened.items():
            queue = self.intake.waiting[source]
            if queue.records and self._machine.wants_rows(stream, partition):
                chunk, size = queue.take_some(CHUNK_RECORDS_MAX, CHUNK_BYTES_MAX)
                self._given[stream, partition].append((chunk[-1].offset, chunk[0].timestamp_ms))
                self._traffic.count(Topic.INPUT.value, size, len(chunk))
                if self.on_taken is not None:
                    self.on_taken(chunk[0].timestamp_ms, chunk[-1].timestamp_ms)
                yield from self._machine.on_rows(stream, partition, self._parse(stream, partition, chunk))
            else:
                self._note_end(stream, partition, source)

    def _note_end(self, stream: int, partition: int, source: LogPartition) -> None:
        """Say whether an input is at its end; the log is asked before it counts as idle: what is known may be old."""
        ended = self.intake.is_drained(source)
        if ended and self._machine.doubts_end(stream, partition):
            now_ms = self._clock.monotonic_ms()
            if now_ms < self._asked_ms.get(source, -math.inf) + ASK_MS:
                return
            self._asked_ms[source] = now_ms
            ended = self.intake.has_passed(source, self._log.end(source))
        self._machine.on_input_end(stream, partition, ended=ended)

    def has_work(self) -> bool:
        """Whether `feed` would give rows to the machine."""
        return any(
            self.intake.waiting[source].records and self._machine.wants_rows(*key)
            for key, source in self._opened.items()
        )

    def waits_since_ms(self) -> int | None:
        """When the oldest record was produced that no frame has passed, ms since 1970; None where none waits.

        Precise to within the records that were given to the machine at once.
        """
        positions = self._machine.sources()
        oldest = [self._oldest_ms(key, positions.get(key)) for key in self._opened]
        return min((at for at in oldest if at is not None), default=None)

    def _oldest_ms(self, key: tuple[int, int], at: SourcePosition | None) -> int | None:
        given, queue = self._given[key], self.intake.waiting[self._opened[key]]
        while given and at is not None and given[0][0] < at.offset:
            given.popleft()
        if given:
            return given[0][1]
        return queue.records[0].timestamp_ms if queue.records else None

    def close(self) -> None:
        """Stop reading."""
        self.intake.reader.close()

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

    def _open(self) -> None:
        positions = self._machine.sources()
        for stream, partition in self._known:
            if (stream, partition) not in self._opened:
                source = LogPartition(self._topics[stream], partition)
                at = positions.get((stream, partition))
                self.intake.open(source, self._start(source, None if at is None else at.offset))
                self._opened[stream, partition] = source
                self._given[stream, partition] = deque()

    def _start(self, source: LogPartition, wanted: int | None) -> int:
        earliest, end = self._log.bounds(source)
        if wanted is not None and wanted > end:
            raise lost(
                f"input {source.topic}, partition {source.partition}, was read to offset {wanted:,} and ends at {end:,}"
            )
        if wanted is not None and wanted < earliest:
            _log.error("input records are lost", topic=source.topic, wanted=wanted, earliest=earliest)
        return earliest if wanted is None else max(wanted, earliest)
