"""The reading half of the Kafka adapter: manual assignment, positions from the protocol, no consumer group."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from spojoin.ports.interfaces import LogPartition, LogRecord, LogUnavailable
from spojoin.ports.kafka_client import CLIENT_LOGGER, KnownBrokers, OnTraffic, unheard
from spojoin.protocol.access import UNUSED_GROUP

#: how much is fetched ahead, in KiB: some milliseconds of a fast log, so that little is lost when an input is paused
PREFETCH_KBYTES = 16 << 10
#: how often the broker is asked if there is nothing to read; it answers at once if there is something
FETCH_WAIT_MS = 50
OFFSETS_TIMEOUT_S = 10.0
FIND_TIMEOUT_S = 1.0


class KafkaReader:
    """Assigned partitions of one consumer.

    `common` are the properties of every client, `message_bytes_max` the largest record.
    """

    def __init__(self, common: Mapping[str, object], message_bytes_max: int, on_traffic: OnTraffic = unheard) -> None:
        self._on_traffic = on_traffic
        self._positions: dict[LogPartition, int] = {}
        self._inputs: dict[tuple[str | None, int | None], LogPartition] = {}
        self._at_end: set[LogPartition] = set()
        self._fresh: set[LogPartition] = set()
        self._found: set[str] = set()
        self._paused: set[LogPartition] = set()
        self._properties = {
            **common,
            "group.id": UNUSED_GROUP,  # nothing is committed
            "enable.auto.commit": False,
            # a position that was trimmed away is an error, and never skipped silently
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            # reports when the end is reached, even if the last offsets hold transaction markers
            "enable.partition.eof": True,
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "fetch.max.bytes": message_bytes_max,
            "fetch.message.max.bytes": 8 << 20,
            "receive.message.max.bytes": 2 * message_bytes_max,
            "queued.max.messages.kbytes": PREFETCH_KBYTES,
            # a full queue would otherwise stop fetching for a whole second
            "fetch.queue.backoff.ms": 2,
            "fetch.error.backoff.ms": 50,
            # without a group, a slow poll holds up no other reader
            "max.poll.interval.ms": 86_400_000,
        }
        self._connect()

    def open(self, source: LogPartition, offset: int) -> None:
        """Read `source` from `offset` on, or from the earliest retained offset if that is later."""
        self.drop(source)
        self._positions[source] = offset
        self._fresh.add(source)
        self._inputs[source.topic, source.partition] = source
        self._find(source.topic)
        self._consumer.incremental_assign([TopicPartition(*source, offset)])

    def pause(self, source: LogPartition) -> None:
        """Give no more records of `source` until it is resumed; records fetched ahead are then fetched again."""
        self._paused.add(source)
        self._consumer.pause([TopicPartition(*source)])

    def resume(self, source: LogPartition) -> None:
        """Undo `pause`."""
        self._paused.discard(source)
        self._consumer.resume([TopicPartition(*source)])

    def poll(self, records_max: int, timeout_s: float) -> Sequence[LogRecord[bytes]]:
        """At most `records_max` records; waits up to `timeout_s` for the first one only.

        `consume` alone would wait for its whole time unless it gets all records that it asks for.
        """
        try:
            # the client waits whole milliseconds; rounded down, it would poll in vain for the rest of a tick
            first = self._consumer.poll(math.ceil(1000 * timeout_s) / 1000)
            if first is None:
                if self._brokers.are_lost:
                    self._begin_anew()
                return ()
            messages = [first, *self._consumer.consume(records_max - 1, 0)] if records_max > 1 else [first]
        except KafkaException as error:
            raise LogUnavailable(f"reading failed: {error.args[0]}") from error
        return self._records(messages)

    def position(self, source: LogPartition) -> int:
        """The offset behind the last record given or gap passed."""
        return self._positions[source]

    def at_end(self, source: LogPartition) -> bool:
        """Whether the broker had nothing more when `source` was last fetched."""
        return source in self._at_end

    def lag(self, source: LogPartition) -> int:
        """Offsets between the position and the end that the last fetch reported."""
        if source in self._at_end:
            return 0
        _, end = self._consumer.get_watermark_offsets(TopicPartition(*source), cached=True)
        return max(0, int(end) - self._positions[source])

    def drop(self, source: LogPartition) -> None:
        """Read `source` no more."""
        if source in self._positions:
            self._consumer.incremental_unassign([TopicPartition(*source)])
            del self._positions[source]
            self._at_end.discard(source)
            self._paused.discard(source)

    def close(self) -> None:
        self._consumer.close()

    def _connect(self) -> None:
        self._brokers = KnownBrokers(self._on_traffic)
        self._consumer = Consumer({**self._properties, **self._brokers.properties}, logger=CLIENT_LOGGER)

    def _begin_anew(self) -> None:
        """Continue with a new client from this one's positions, because this one no longer finds a broker."""
        self._consumer.close()
        self._connect()
        self._at_end.clear()
        self._found.clear()
        self._consumer.incremental_assign([TopicPartition(*source, at) for source, at in self._positions.items()])
        self._consumer.pause([TopicPartition(*source) for source in self._paused])

    def _find(self, topic: str) -> None:
        """Learn where a topic is; the client itself would look when its timers run out, up to a second later.

        If no broker answers now, the client still does, and reports it.
        """
        if topic not in self._found:
            with suppress(KafkaException):
                self._consumer.list_topics(topic, timeout=FIND_TIMEOUT_S)
                self._found.add(topic)

    def _catch_up_with_trims(self, source: LogPartition) -> None:
        """Restart at the log's new beginning, unless records were already read: the gap would then be a loss."""
        if source not in self._fresh:
            raise LogUnavailable(f"{source.topic}[{source.partition}] was trimmed beyond {self._positions[source]}")
        try:
            earliest, _ = self._consumer.get_watermark_offsets(TopicPartition(*source), timeout=OFFSETS_TIMEOUT_S)
        except KafkaException as error:
            raise LogUnavailable(f"the offsets of {source.topic} are not known: {error.args[0]}") from error
        self.open(source, int(earliest))

    def _records(self, messages: Sequence[Message]) -> list[LogRecord[bytes]]:
        """The records among messages, in order; other messages are the client's reports."""
        records: list[LogRecord[bytes]] = []
        begin = 0
        errors = [message.error() for message in messages]
        for end, error in enumerate(errors):
            if error is not None:
                records += self._take(messages[begin:end])
                self._hear(error, messages[end])
                begin = end + 1
        return records + self._take(messages[begin:])

    def _take(self, messages: Sequence[Message]) -> list[LogRecord[bytes]]:
        """Messages as records, and move the positions after them.

        It works column by column, since a Python call for each message would cost more than everything else.
        """
        sources = [self._inputs[message.topic(), message.partition()] for message in messages]
        offsets = [message.offset() or 0 for message in messages]
        times_ms = [message.timestamp()[1] for message in messages]
        values = [message.value() or b"" for message in messages]
        headers = [tuple(found) if (found := message.headers()) else () for message in messages]
        keys = [message.key() for message in messages]
        last = dict(zip(sources, offsets, strict=True))
        self._positions.update((source, offset + 1) for source, offset in last.items())
        self._fresh.difference_update(last)
        self._at_end.difference_update(last)
        return list(map(_new_record, zip(sources, offsets, times_ms, values, headers, keys, strict=True)))

    def _hear(self, error: KafkaError, message: Message) -> None:
        """Take a message that isn't a record; a partition's end is an error that has the offset after all gaps."""
        if message.topic() is None:  # it is about the consumer itself, which may lack a right
            raise LogUnavailable(f"reading failed: {error}")
        source = self._inputs[message.topic(), message.partition()]
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._catch_up_with_trims(source)
            return
        if error.code() != KafkaError._PARTITION_EOF:
            raise LogUnavailable(f"reading {message.topic()}[{message.partition()}] failed: {error}")
        self._fresh.discard(source)
        self._positions[source] = message.offset() or 0
        self._at_end.add(source)


#: LogRecord(*fields), without the Python call in a named tuple's own constructor
_new_record = cast("Callable[[tuple[object, ...]], LogRecord[bytes]]", partial(tuple.__new__, LogRecord))
