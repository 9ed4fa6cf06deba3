"""The query's table on its way into the router's machine: a file, once, or a compacted topic, followed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import structlog

from spojoin.errors import Retryable
from spojoin.ports.interfaces import Clock, Log, LogPartition, LogRecord
from spojoin.protocol.machine import Action, InputMachine, TableRows
from spojoin.runtime.inputs import CHUNK_BYTES_MAX, CHUNK_RECORDS_MAX, DISCOVERY_MS
from spojoin.runtime.intake import Intake

_log = structlog.get_logger(__name__)


class TableReading(Protocol):
    """What makes rows of a table's messages, or has them already.

    refresh_ms: how long changes are gathered for a version
    """

    refresh_ms: int

    def add(self, partition: int, messages: Sequence[LogRecord[bytes]]) -> None:
        """Take the next messages of a partition, at least one."""
        ...

    def version(self) -> TableRows:
        """The table as it is now."""
        ...


class TableFeed:
    """Gives the machine the first version once the topic is read to where it ended at the start, and then its changes.

    A topic to which nothing was ever written has no version yet. topic: None where the reading has all rows
    """

    def __init__(
        self, log: Log[bytes], machine: InputMachine, topic: str | None, reading: TableReading, clock: Clock
    ) -> None:
        self.intake = Intake(log.reader(), clock)
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

    def feed(self) -> Iterator[Action]:
        """Give the machine a version that is due; yield what it emits."""
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
        """Stop reading."""
        self.intake.reader.close()

    def _is_due(self) -> bool:
        if not self._is_whole and (self._topic is None or self._targets is None or any(self._targets.values())):
            ends = {} if self._topic is None else self._targets
            return ends is not None and all(self.intake.has_passed(source, end) for source, end in ends.items())
        changed = self._changed_at_ms
        return changed is not None and self._clock.monotonic_ms() - changed >= self._reading.refresh_ms

    def _read(self, topic: str) -> None:
        if (now_ms := self._clock.monotonic_ms()) >= self._discover_at_ms:
            self._discover_at_ms = now_ms + DISCOVERY_MS
            self._discover(topic)
        if self._targets is None:
            return
        self.intake.fill(0.0)
        for source, queue in self.intake.waiting.items():
            if queue.records:
                self._reading.add(source.partition, queue.take_some(CHUNK_RECORDS_MAX, CHUNK_BYTES_MAX)[0])
                self._changed_at_ms = self._changed_at_ms or now_ms

    def _discover(self, topic: str) -> None:
        """Open the partitions; where there are more than before, keys have moved, and the table is read anew."""
        sources = [LogPartition(topic, partition) for partition in range(self._log.partitions(topic))]
        if self._targets is not None and len(sources) > len(self._targets):
            raise Retryable(f"the table's topic {topic} has more partitions than before, and is read anew")
        if sources and self._targets is None:
            self._targets = {source: self._log.end(source) for source in sources}
            for source in sources:
                self.intake.open(source, self._log.bounds(source).earliest)
