"""Sends messages to Kafka idempotently: each once and in order, also across a broker's restart."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from loadgen.load.connection import Connection
from loadgen.load.formats import MessageFormat
from spojoin.ports.interfaces import AmbiguousAppend, LogPartition, LogUnavailable
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.kafka_client import CLIENT_LOGGER, KnownBrokers
from spojoin.protocol.topology import MESSAGE_BYTES_MAX

#: The bound of the client's queue, more than a second of any load; `send` waits while it is full.
QUEUE_MESSAGES_MAX = 200_000
QUEUE_KBYTES_MAX = 64 << 10
#: Longer than a broker's restart, so that this loses no row.
DELIVERY_TIMEOUT_S = 300.0
#: The time that messages wait to share a request: requests of a few rows would cost the broker more than the rows.
#: Batches needn't wait.
LINGER_MS = {MessageFormat.ARROW: 0, MessageFormat.JSON: 5}
ROOM_POLL_S = 0.01
#: How long to wait before retrying a broker that doesn't answer.
ASK_AGAIN_S = 0.5
#: How long a flush runs between checks of the client's state, and how long dropping the queue may take.
FLUSH_S, DROP_S = 1.0, 10.0

_DROPPED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})


class KafkaSender:
    """A producer, the only one for the partitions to which it sends.

    message: the format, which determines how long a message waits for others
    """

    def __init__(self, connection: Connection, message: MessageFormat = MessageFormat.ARROW) -> None:
        config = KafkaConfig(connection.bootstrap, connection.properties)
        self._log = KafkaLog(config)
        self._properties = {
            "compression.type": "none",
            "linger.ms": LINGER_MS[message],
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": QUEUE_MESSAGES_MAX,
            "queue.buffering.max.kbytes": QUEUE_KBYTES_MAX,
            "message.max.bytes": MESSAGE_BYTES_MAX,
            "delivery.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000),
            "delivery.report.only.error": True,
            "enable.idempotence": True,
            **config.common(),
        }
        self._begins: dict[LogPartition, int] = {}
        self._queued: Counter[LogPartition] = Counter()
        self._failure: KafkaError | None = None
        self._connect()

    def send(self, target: LogPartition, values: Sequence[bytes], timestamp_ms: int) -> None:
        """Queue messages in order, waiting while the queue is full.

        Raises LogUnavailable if the topic isn't known, and AmbiguousAppend if an earlier message can't be delivered.
        """
        if target not in self._begins:
            self._begins[target] = self._log.end(target)
        self._serve(0)
        self._put(target, values, timestamp_ms)

    def flush(self, timeout_s: float) -> None:
        """Return when all messages are acknowledged; raises AmbiguousAppend."""
        deadline = time.monotonic() + timeout_s
        while left := self._producer.flush(max(0.0, min(FLUSH_S, deadline - time.monotonic()))):
            self._serve(0)
            if time.monotonic() > deadline:
                raise AmbiguousAppend(f"{left:,} messages were not acknowledged within {timeout_s:.0f} s: is Kafka up?")
        self._serve(0)

    def close(self) -> None:
        """Drop the queued messages."""
        self._drop()
        self._log.close()

    def _connect(self) -> None:
        self._brokers = KnownBrokers()
        self._dropped: defaultdict[LogPartition, list[tuple[int, bytes, int]]] = defaultdict(list)
        self._producer = Producer({**self._properties, **self._brokers.properties}, logger=CLIENT_LOGGER)

    def _put(self, target: LogPartition, values: Sequence[bytes], timestamp_ms: int) -> None:
        deadline = time.monotonic() + DELIVERY_TIMEOUT_S
        while left := values[self._queue(target, values, timestamp_ms) :]:
            if len(left) < len(values):
                values, deadline = left, time.monotonic() + DELIVERY_TIMEOUT_S
            if time.monotonic() > deadline:
                raise AmbiguousAppend(f"nothing was acknowledged for {DELIVERY_TIMEOUT_S:.0f} s")
            self._serve(ROOM_POLL_S)

    def _queue(self, target: LogPartition, values: Sequence[bytes], timestamp_ms: int) -> int:
        """Queue as many messages as fit, and return their number."""
        topic, partition = target
        produce, report, first = self._producer.produce, self._on_delivery, self._queued[target]
        count = 0
        try:
            for value in values:
                # Undelivered messages come back without their times and out of order.
                dropped = partial(report, first + count, timestamp_ms)
                # Named arguments would cost as much as the call itself.
                produce(topic, value, None, partition, dropped, None, timestamp_ms)
                count += 1
        except BufferError:
            pass  # the rest is queued when there is room
        except KafkaException as error:
            raise AmbiguousAppend(f"a message for {topic} can't be sent: {error.args[0]}") from error
        self._queued[target] += count
        return count

    def _serve(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)
        if self._failure is not None:
            raise AmbiguousAppend(f"a message was not delivered: {self._failure}")
        if self._brokers.are_lost:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Send the undelivered messages by a new client, since the last one no longer finds a broker.

        Unacknowledged messages may have been written; the ends of the partitions show how many.
        """
        if left := self._drop():
            raise AmbiguousAppend(f"what became of {left:,} messages isn't known: the client doesn't drop them")
        undelivered = self._undelivered()
        self._connect()
        for target, messages in undelivered.items():
            delivered = self._queued[target] - len(messages)
            written = self._end(target) - self._begins[target] - delivered
            if not 0 <= written <= len(messages):
                raise AmbiguousAppend(
                    f"{target.topic}[{target.partition}] has another writer: who wrote what isn't known"
                )
            self._queued[target] = delivered + written
            for value, timestamp_ms in messages[written:]:
                self._put(target, [value], timestamp_ms)

    def _end(self, target: LogPartition) -> int:
        deadline = time.monotonic() + DELIVERY_TIMEOUT_S
        while True:
            try:
                return self._log.end(target)
            except LogUnavailable as error:
                if time.monotonic() > deadline:
                    raise AmbiguousAppend(f"what was delivered isn't known: {error}") from error
                time.sleep(ASK_AGAIN_S)

    def _drop(self) -> int:
        """Drop unacknowledged messages; returns how many the client still keeps.

        A purge misses what is between two queues. The client also counts its log lines, which may come at any time.
        """
        deadline = time.monotonic() + DROP_S
        while True:
            self._producer.purge(blocking=False)
            left = self._producer.flush(FLUSH_S)
            if not left or time.monotonic() > deadline:
                return left

    def _undelivered(self) -> dict[LogPartition, list[tuple[bytes, int]]]:
        """The values and times of the dropped messages by partition, in order."""
        return {
            target: [(value, timestamp_ms) for _, value, timestamp_ms in sorted(messages)]
            for target, messages in self._dropped.items()
        }

    def _on_delivery(self, number: int, timestamp_ms: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            return
        if error.code() in _DROPPED:
            target = LogPartition(message.topic() or "", message.partition() or 0)
            self._dropped[target].append((number, message.value() or b"", timestamp_ms))
        else:
            self._failure = self._failure or error
