"""Messages straight into Kafka, idempotent: each is there once and in its order, also across a broker's restart."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException, Producer

from loadgen.load.connection import Connection
from loadgen.load.formats import MessageFormat
from spojoin.ports.client_logger import CLIENT_LOGGER
from spojoin.ports.interfaces import AmbiguousAppend, LogPartition
from spojoin.ports.kafka import KafkaConfig
from spojoin.protocol.topology import MESSAGE_BYTES_MAX

#: Bounds of the client's queue: a second of any load fills a part of it, and `send` waits while it is full.
QUEUE_MESSAGES_MAX = 200_000
QUEUE_KBYTES_MAX = 64 << 10
#: Longer than a broker's restart, so that no row is lost with it.
DELIVERY_TIMEOUT_S = 300.0
#: How long messages wait to share a request. Requests of a few rows would cost the broker more than the rows;
#: batches needn't wait.
LINGER_MS = {MessageFormat.ARROW: 0, MessageFormat.JSON: 5}
ROOM_POLL_S = 0.01


class KafkaSender:
    """One producer of a cluster. message: what it sends, which decides how long a message waits for others."""

    def __init__(self, connection: Connection, message: MessageFormat = MessageFormat.ARROW) -> None:
        self._failure: KafkaError | None = None
        self._producer = Producer(
            {
                "compression.type": "none",
                "linger.ms": LINGER_MS[message],
                "batch.size": 1 << 20,
                "queue.buffering.max.messages": QUEUE_MESSAGES_MAX,
                "queue.buffering.max.kbytes": QUEUE_KBYTES_MAX,
                "message.max.bytes": MESSAGE_BYTES_MAX,
                "delivery.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000),
                "delivery.report.only.error": True,
                "enable.idempotence": True,
                **KafkaConfig(connection.bootstrap, connection.properties).common(),
            },
            logger=CLIENT_LOGGER,
        )

    def send(self, target: LogPartition, values: Sequence[bytes], timestamp_ms: int) -> None:
        """Queue messages in order, waiting while the queue is full.

        Raises AmbiguousAppend where an earlier one can't be delivered.
        """
        self._serve(0)
        topic, partition = target
        produce, report = self._producer.produce, self._on_delivery
        for value in values:
            try:
                # By position: named arguments would cost as much as the call itself.
                produce(topic, value, None, partition, report, None, timestamp_ms)
            except BufferError:
                self._send_with_room(target, value, timestamp_ms)
            except KafkaException as error:
                raise AmbiguousAppend(f"a message for {topic} can't be sent: {error.args[0]}") from error

    def flush(self, timeout_s: float) -> None:
        """Return when all is acknowledged; raises AmbiguousAppend."""
        left = self._producer.flush(timeout_s)
        self._serve(0)
        if left:
            raise AmbiguousAppend(f"{left:,} messages were not acknowledged within {timeout_s:.0f} s: is Kafka up?")

    def close(self) -> None:
        """Drop what is queued."""
        self._producer.purge(blocking=False)
        self._producer.flush(1.0)

    def _send_with_room(self, target: LogPartition, value: bytes, timestamp_ms: int) -> None:
        deadline = time.monotonic() + DELIVERY_TIMEOUT_S
        while True:
            self._serve(ROOM_POLL_S)
            try:
                self._producer.produce(
                    target.topic, value, None, target.partition, self._on_delivery, None, timestamp_ms
                )
            except BufferError:
                if time.monotonic() > deadline:
                    raise AmbiguousAppend(f"nothing was acknowledged for {DELIVERY_TIMEOUT_S:.0f} s") from None
                continue
            return

    def _serve(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)
        if self._failure is not None:
            raise AmbiguousAppend(f"a message was not delivered: {self._failure}")

    def _on_delivery(self, error: KafkaError | None, _: object) -> None:
        # What `close` drops is no failure.
        if error is not None and error.code() != KafkaError._PURGE_QUEUE:
            self._failure = self._failure or error
