"""The ports in plain Python: deterministic, without threads or waiting, with the same contract as Kafka and Redis."""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, cast

from spojoin.errors import Fenced
from spojoin.ports.interfaces import (
    AmbiguousAppend,
    Bounds,
    Clock,
    Fields,
    Headers,
    LogPartition,
    LogRecord,
    LogUnavailable,
    V,
)
from spojoin.protocol.topic_config import DEFAULTS, TopicKind
from spojoin.wire.records import MessageHeaders
from spojoin.wire.registered import RegisteredSchema, UnknownSchema

#: A record of an open transaction: its partition, value, headers, time and key.
_Queued: TypeAlias = tuple[LogPartition, V, MessageHeaders, int | None, bytes | None]


class Fate(enum.Enum):
    """The fate of an append: acknowledged, in the log without an acknowledgement, or lost."""

    LANDS = "lands"
    LANDS_UNKNOWN = "lands unknown"
    LOST = "lost"


FateOf = Callable[[LogPartition], Fate]


@dataclass(slots=True)
class _Partition(Generic[V]):
    """Records in offset order; an offset without a record is a transaction's marker."""

    records: list[LogRecord[V]] = field(default_factory=list)
    earliest: int = 0
    end: int = 0

    def append(
        self, source: LogPartition, value: V, headers: MessageHeaders, timestamp_ms: int, key: bytes | None = None
    ) -> None:
        self.records.append(LogRecord(source, self.end, timestamp_ms, value, cast("Headers", headers), key))
        self.end += 1

    def at(self, offset: int) -> int:
        return bisect_left(self.records, offset, key=lambda record: record.offset)

    def trim(self, before: int) -> None:
        self.earliest = max(self.earliest, min(before, self.end))
        del self.records[: self.at(self.earliest)]


class MemoryLog(Generic[V]):
    """A log of objects.

    `fate_of` decides about each append that reaches the log, so that tests can simulate a failing broker. `clock` gives
    the time of records (None: 0).
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.fate_of: FateOf = lambda _: Fate.LANDS
        self._clock = clock
        self._topics: dict[str, list[_Partition[V]]] = {}
        self._epochs: dict[str, int] = defaultdict(int)
        self._deleted: Counter[str] = Counter()

    def create_topics(
        self, partitions: Mapping[str, int], config: Mapping[str, str] = DEFAULTS[TopicKind.INTERNAL]
    ) -> None:
        """Make sure that each topic exists with at least the given partitions; they keep everything until trimmed."""
        for topic, count in partitions.items():
            existing = self._topics.setdefault(topic, [])
            existing.extend(_Partition() for _ in range(count - len(existing)))

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Delete the topics that exist, with all their records."""
        for topic in topics:
            if self._topics.pop(topic, None) is not None:
                self._deleted[topic] += 1

    def partitions(self, topic: str) -> int:
        """The number of a topic's partitions; 0 if there is no such topic."""
        return len(self._topics.get(topic, ()))

    def topic_id(self, topic: str) -> str:
        """The topic's name, and how many topics with this name were deleted."""
        return f"{topic}-in-memory-{self._deleted[topic]}"

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """The ids of the topics that exist."""
        return {topic: self.topic_id(topic) for topic in topics if topic in self._topics}

    def bounds(self, source: LogPartition) -> Bounds:
        found = self._partition(source)
        return Bounds(found.earliest, found.end)

    def end(self, source: LogPartition) -> int:
        """The end of the retained offsets."""
        return self._partition(source).end

    def trim(self, source: LogPartition, before: int) -> None:
        """Delete records before that offset."""
        self._partition(source).trim(before)

    def reader(self) -> MemoryReader[V]:
        """A reader with no inputs yet."""
        return MemoryReader(self)

    def writer(self, transactional_id: str | None = None) -> MemoryWriter[V]:
        """A writer; with an id its flushes are transactions and all older writers of that id are fenced."""
        if transactional_id is None:
            return MemoryWriter(self, None, 0)
        self._epochs[transactional_id] += 1
        return MemoryWriter(self, transactional_id, self._epochs[transactional_id])

    def records(self, source: LogPartition) -> Sequence[LogRecord[V]]:
        """All retained records of a partition, for tests and the simulator."""
        return self._partition(source).records

    def close(self) -> None:
        pass

    def _partition(self, source: LogPartition) -> _Partition[V]:
        partitions = self._topics.get(source.topic, [])
        if not 0 <= source.partition < len(partitions):
            raise LogUnavailable(f"there is no partition {source.partition} of topic {source.topic!r}")
        return partitions[source.partition]

    def _check_epoch(self, transactional_id: str | None, epoch: int) -> None:
        if transactional_id is not None and epoch != self._epochs[transactional_id]:
            raise Fenced(f"a newer writer holds the transactional id {transactional_id!r}")

    def _land(
        self, target: LogPartition, value: V, headers: MessageHeaders, timestamp_ms: int | None, key: bytes | None
    ) -> bool:
        """Append with the fate that `fate_of` decides, and return whether the append was acknowledged."""
        fate = self.fate_of(target)
        if fate is not Fate.LOST:
            now_ms = self._clock.wall_ms() if self._clock else 0
            at_ms = now_ms if timestamp_ms is None else timestamp_ms
            self._partition(target).append(target, value, headers, at_ms, key)
        return fate is Fate.LANDS


class MemoryReader(Generic[V]):
    """Reads the opened inputs in turn, so that none starves."""

    def __init__(self, log: MemoryLog[V]) -> None:
        self._log = log
        self._positions: dict[LogPartition, int] = {}
        self._paused: set[LogPartition] = set()
        self._fresh: set[LogPartition] = set()

    def open(self, source: LogPartition, offset: int) -> None:
        """Read `source` from `offset` on, or from the earliest retained offset if that is later."""
        self._positions[source] = max(offset, self._log.bounds(source).earliest)
        self._fresh.add(source)
        self._paused.discard(source)

    def pause(self, source: LogPartition) -> None:
        """Give no more records of `source` until it is resumed."""
        self._paused.add(source)

    def resume(self, source: LogPartition) -> None:
        """Undo `pause`."""
        self._paused.discard(source)

    def poll(self, records_max: int, timeout_s: float) -> Sequence[LogRecord[V]]:
        """At most `records_max` records; never waits."""
        taken: list[LogRecord[V]] = []
        for source in list(self._positions):
            if source not in self._paused and len(taken) < records_max:
                taken += self._take(source, records_max - len(taken))
                self._positions[source] = self._positions.pop(source)
        return taken

    def position(self, source: LogPartition) -> int:
        """The offset behind the last record given or gap passed."""
        return self._positions[source]

    def at_end(self, source: LogPartition) -> bool:
        """Whether there is nothing more to read."""
        return self.lag(source) == 0

    def lag(self, source: LogPartition) -> int:
        """Offsets between the position and the end."""
        return self._log.end(source) - self._positions[source]

    def drop(self, source: LogPartition) -> None:
        """Read `source` no more."""
        self._positions.pop(source, None)

    def close(self) -> None:
        self._positions.clear()

    def _take(self, source: LogPartition, count: int) -> list[LogRecord[V]]:
        partition = self._log._partition(source)
        if source not in self._fresh and self._positions[source] < self._log.bounds(source).earliest:
            raise LogUnavailable(f"{source.topic}[{source.partition}] was trimmed beyond {self._positions[source]}")
        self._fresh.discard(source)
        start = partition.at(self._positions[source])
        taken = partition.records[start : start + count]
        is_all = start + len(taken) == len(partition.records)
        self._positions[source] = partition.end if is_all else taken[-1].offset + 1
        return taken


class MemoryWriter(Generic[V]):
    """Writes at once, or at `flush` if it is transactional."""

    def __init__(self, log: MemoryLog[V], transactional_id: str | None, epoch: int) -> None:
        self._log = log
        self._id = transactional_id
        self._epoch = epoch
        self._transaction: list[_Queued[V]] = []
        self._failed = False

    def append(
        self,
        target: LogPartition,
        value: V,
        headers: MessageHeaders = (),
        timestamp_ms: int | None = None,
        key: bytes | None = None,
    ) -> None:
        """Append now, or with the transaction."""
        self.serve()
        self._log._partition(target)
        if self._id is None:
            self._failed |= not self._log._land(target, value, headers, timestamp_ms, key)
        else:
            self._transaction.append((target, value, headers, timestamp_ms, key))

    def serve(self) -> None:
        """Raise an error if an earlier append failed or a newer writer has taken over."""
        self._log._check_epoch(self._id, self._epoch)
        if self._failed:
            raise AmbiguousAppend("the log did not acknowledge an append")

    def flush(self, timeout_s: float) -> None:
        """Commit the open transaction; raises AmbiguousAppend if the log did not acknowledge it."""
        self.serve()
        transaction, self._transaction = self._transaction, []
        if transaction:
            self._commit(transaction)
        self.serve()

    def begin_flush(self, timeout_s: float) -> None:
        self.flush(timeout_s)

    def is_flushed(self) -> bool:
        """Always True: a flush ends at once."""
        self.serve()
        return True

    def close(self) -> None:
        """Abort the open transaction."""
        self._transaction = []

    def _commit(self, transaction: list[_Queued[V]]) -> None:
        """Commit all records or none; a transaction's fate is that of its first record."""
        fate = self._log.fate_of(transaction[0][0])
        self._failed = fate is not Fate.LANDS
        if fate is Fate.LOST:
            return
        now_ms = self._log._clock.wall_ms() if self._log._clock else 0
        for target, value, headers, timestamp_ms, key in transaction:
            stamp_ms = now_ms if timestamp_ms is None else timestamp_ms
            self._log._partition(target).append(target, value, headers, stamp_ms, key)
        for target in {entry[0] for entry in transaction}:
            self._log._partition(target).end += 1


@dataclass(slots=True)
class _Entry:
    fields: dict[str, str]
    expires_ms: float


class MemoryStore:
    """A dictionary of keys; they expire by `clock` (None: never)."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock
        self._entries: dict[str, _Entry] = {}

    def put(self, entries: Mapping[str, Fields], ttl_s: float | None = None) -> None:
        """Set fields of keys, leaving other fields alone."""
        expires_ms = float("inf") if ttl_s is None else self._now_ms() + 1000 * ttl_s
        for key, fields in entries.items():
            merged = self.get(key) | {name: str(value) for name, value in fields.items()}
            if merged:
                self._entries[key] = _Entry(merged, expires_ms)

    def get(self, key: str) -> dict[str, str]:
        """All fields of a key; empty if there is no such key."""
        entry = self._entries.get(key)
        return dict(entry.fields) if entry is not None and entry.expires_ms > self._now_ms() else {}

    def scan(self, prefix: str) -> dict[str, dict[str, str]]:
        """All keys that start with `prefix`, in order, with their fields."""
        found = {key: self.get(key) for key in sorted(self._entries) if key.startswith(prefix)}
        return {key: fields for key, fields in found.items() if fields}

    def remove(self, key: str, *fields: str) -> None:
        """Remove fields of a key, or the whole key if none are named."""
        entry = self._entries.get(key)
        if entry is not None and fields:
            entry.fields = {name: value for name, value in entry.fields.items() if name not in fields}
        elif entry is not None:
            del self._entries[key]

    def clear(self) -> None:
        """Lose everything, as a wiped server does."""
        self._entries.clear()

    def close(self) -> None:
        pass

    def _now_ms(self) -> float:
        return self._clock.monotonic_ms() if self._clock else 0.0


class ManualClock:
    """A clock that tests move by hand, and that sleeping moves too."""

    def __init__(self, now_ms: float = 0.0) -> None:
        self.now_ms = now_ms

    def monotonic_ms(self) -> float:
        """Milliseconds since the start."""
        return self.now_ms

    def wall_ms(self) -> int:
        """Milliseconds since the start, which as a date is in 1970."""
        return int(self.now_ms)

    def sleep(self, seconds: float) -> None:
        """Move the clock forward."""
        self.now_ms += 1000 * seconds


class MemoryRegistry:
    """A registry whose ids count from 1; it doesn't check compatibility."""

    def __init__(self) -> None:
        self._schemas: list[RegisteredSchema] = []
        self._latest: dict[str, RegisteredSchema] = {}

    def find(self, schema_id: int) -> RegisteredSchema:
        if not 1 <= schema_id <= len(self._schemas):
            raise UnknownSchema(f"schema {schema_id}: not found")
        return self._schemas[schema_id - 1]

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject."""
        if subject not in self._latest:
            raise UnknownSchema(f"subject {subject}: not found")
        return self._latest[subject]

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        """The id of a schema, the same under every subject."""
        if schema not in self._schemas:
            self._schemas.append(schema)
        self._latest[subject] = schema
        return self._schemas.index(schema) + 1

    def close(self) -> None:
        pass
