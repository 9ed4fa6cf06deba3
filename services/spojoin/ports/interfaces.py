"""The interfaces between the runtime and the outside world: a log, a store, a clock and a schema registry."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from spojoin.errors import Retryable
from spojoin.protocol.topic_config import DEFAULTS, TopicKind
from spojoin.wire.records import MessageHeaders
from spojoin.wire.registered import RegisteredSchema

V = TypeVar("V")
V_contra = TypeVar("V_contra", contravariant=True)

Headers = tuple[tuple[str, bytes], ...]

Fields = Mapping[str, str | int | float]


class AmbiguousAppend(Retryable):
    """It is unknown whether the records appended since the last successful flush are in the log."""


class LogUnavailable(Retryable):
    """The log doesn't answer, or the topic isn't there yet."""


class StoreUnavailable(Retryable):
    """The store doesn't answer within its timeout."""


class RegistryUnavailable(Retryable):
    """The schema registry doesn't answer, or reports that it can't now."""


class LogPartition(NamedTuple):
    """One partition of one topic, by its name in the log."""

    topic: str
    partition: int


class LogRecord(NamedTuple, Generic[V]):
    """A record that was read; `timestamp_ms` is when it was produced, `key` is its key for compaction."""

    input: LogPartition
    offset: int
    timestamp_ms: int
    value: V
    headers: Headers
    key: bytes | None = None


class Bounds(NamedTuple):
    """Offsets [earliest, end) may hold records; some of them may be gaps (transaction markers, aborted records)."""

    earliest: int
    end: int


class BrokerTraffic(NamedTuple):
    """What a client has exchanged with brokers since its last report: requests by name, and bytes of both ways."""

    requests: Mapping[str, int]
    sent_bytes: int
    received_bytes: int


class LogReader(Protocol[V]):
    """Reads inputs from given offsets on, each in offset order; only committed records are read."""

    def open(self, source: LogPartition, offset: int) -> None:
        """Read `source` from `offset` on, or from the earliest retained offset if later; called again, move there."""
        ...

    def pause(self, source: LogPartition) -> None:
        """Give no more records of `source` until it is resumed; its position stays."""
        ...

    def resume(self, source: LogPartition) -> None:
        """Undo `pause`."""
        ...

    def poll(self, records_max: int, timeout_s: float) -> Sequence[LogRecord[V]]:
        """At most `records_max` records; waits up to `timeout_s` for the first one.

        Raises LogUnavailable, also where records that this reader had not returned yet were trimmed.
        """
        ...

    def position(self, source: LogPartition) -> int:
        """The offset behind the last record given or gap passed; reaches `Bounds.end` once `poll` comes back empty."""
        ...

    def at_end(self, source: LogPartition) -> bool:
        """Whether there was nothing more to read when `source` was last looked at."""
        ...

    def lag(self, source: LogPartition) -> int:
        """Offsets between the position and the end, as far as known without a request."""
        ...

    def drop(self, source: LogPartition) -> None:
        """Read `source` no more."""
        ...

    def close(self) -> None: ...


class LogWriter(Protocol[V_contra]):
    """Appends in order. A writer that has raised is spent: close it and open another."""

    def append(
        self,
        target: LogPartition,
        value: V_contra,
        headers: MessageHeaders = (),
        timestamp_ms: int | None = None,
        key: bytes | None = None,
    ) -> None:
        """Queue a record, waiting while the queue is full; a transactional writer begins a transaction if none is open.

        Raises AmbiguousAppend if an earlier append failed, Fenced if a newer writer has the same id.
        """
        ...

    def serve(self) -> None:
        """Check earlier appends, without waiting; raises as `append` does."""
        ...

    def flush(self, timeout_s: float) -> None:
        """Return when all that was appended is readable (the open transaction committed); raises as `append` does."""
        ...

    def begin_flush(self, timeout_s: float) -> None:
        """Begin what `flush` does, without waiting; nothing may be appended until `is_flushed`."""
        ...

    def is_flushed(self) -> bool:
        """Whether the flush that was begun has ended: all that was appended is readable; raises as `append` does."""
        ...

    def close(self) -> None:
        """Give up what is not flushed: an open transaction is aborted; queued records may or may not reach the log."""
        ...


class Log(Protocol[V]):
    """A cluster of topics."""

    def create_topics(
        self, partitions: Mapping[str, int], config: Mapping[str, str] = DEFAULTS[TopicKind.INTERNAL]
    ) -> None:
        """Make sure that each topic exists with at least the given number of partitions.

        A new topic gets `config`, in Kafka's words; by default it keeps its records until they are trimmed. Raises
        ConfigurationError if the configuration is refused.
        """
        ...

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Ask for the deletion of the topics that exist, with all their records. Raises LogUnavailable."""
        ...

    def partitions(self, topic: str) -> int:
        """The number of a topic's partitions; 0 if there is no such topic."""
        ...

    def topic_id(self, topic: str) -> str:
        """An id that distinguishes a topic from an earlier one with the same name."""
        ...

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """The ids of the topics that exist, in one request. Raises LogUnavailable."""
        ...

    def bounds(self, source: LogPartition) -> Bounds:
        """The retained offsets; `end` covers committed records only. Raises LogUnavailable."""
        ...

    def end(self, source: LogPartition) -> int:
        """`bounds(source).end`, with one request instead of two. Raises LogUnavailable."""
        ...

    def trim(self, source: LogPartition, before: int) -> None:
        """Allow records before an offset to be deleted, now or later; never waits."""
        ...

    def reader(self) -> LogReader[V]:
        """A reader with no inputs yet."""
        ...

    def writer(self, transactional_id: str | None = None) -> LogWriter[V]:
        """A writer; with an id its flushes are transactions and all older writers of that id are fenced."""
        ...

    def close(self) -> None: ...


class Store(Protocol):
    """Keys that hold fields of text. It is a cache: its content may vanish at any moment.

    Every operation has a timeout and raises StoreUnavailable.
    """

    def put(self, entries: Mapping[str, Fields], ttl_s: float | None = None) -> None:
        """Set fields of keys in one round trip, leaving other fields alone; a key expires after `ttl_s`."""
        ...

    def get(self, key: str) -> dict[str, str]:
        """All fields of a key; empty if there is no such key."""
        ...

    def scan(self, prefix: str) -> dict[str, dict[str, str]]:
        """All keys that start with `prefix`, in order, with their fields."""
        ...

    def remove(self, key: str, *fields: str) -> None:
        """Remove fields of a key, or the whole key if none are named."""
        ...

    def close(self) -> None: ...


class Clock(Protocol):
    def monotonic_ms(self) -> float:
        """Milliseconds since some fixed moment; never runs backwards."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        ...

    def sleep(self, seconds: float) -> None: ...


class SchemaRegistry(Protocol):
    """Gives schemas by their ids, and ids to schemas."""

    def find(self, schema_id: int) -> RegisteredSchema:
        """The schema with this id, and all schemas that it imports.

        Raises UnknownSchema if there is none, RegistryUnavailable, and ConfigurationError if the user may not
        ask.
        """
        ...

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject, and all schemas that it imports. Raises what `find` raises."""
        ...

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        """The id of a schema under a subject; the same schema keeps its id.

        Raises RegistryUnavailable, and ConfigurationError if the registry refuses the schema or the user.
        """
        ...

    def close(self) -> None: ...


RECORDS_MAX, POLL_S = 1_000, 0.1


def records_between(log: Log[V], source: LogPartition, first: int, end: int) -> Iterator[LogRecord[V]]:
    """The records of `source` in offsets [first, end), in order. Raises LogUnavailable."""
    reader = log.reader()
    try:
        yield from read_between(reader, source, first, end)
    finally:
        reader.close()


def read_between(reader: LogReader[V], source: LogPartition, first: int, end: int) -> Iterator[LogRecord[V]]:
    """The records of `source` in offsets [first, end), by a reader that reads nothing else meanwhile; it stays open."""
    reader.open(source, first)
    while reader.position(source) < end:
        yield from (record for record in reader.poll(RECORDS_MAX, POLL_S) if record.offset < end)


class SystemClock:
    def monotonic_ms(self) -> float:
        """Milliseconds since boot."""
        return time.monotonic_ns() / 1e6

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
