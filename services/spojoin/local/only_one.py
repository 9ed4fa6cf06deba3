"""Allows one `spojoin up` per query and Kafka: a second one is refused when it starts, and doesn't fence the first."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from spojoin.errors import ConfigurationError
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topic_config import DEFAULTS, TopicKind
from spojoin.protocol.topology import Topic, topic_name

ASK_S, POLL_S = 5.0, 0.5
#: The least time that brokers allow; after a crash, the query is free again when it has passed.
SESSION_MS = 6_000


class OnlyOne:
    """Claims a query for this `spojoin up`, as the member of a consumer group.

    Raises ConfigurationError if another one has claimed it. If this user may not see groups, no claim is refused.
    """

    def __init__(
        self, config: KafkaConfig, query: str, topic_config: Mapping[str, str] = DEFAULTS[TopicKind.INTERNAL]
    ) -> None:
        self._config, self._query, self._topic_config = config, query, topic_config
        self._group = topic_name(query, Topic.GENERATIONS) + ".up"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._hold, name="spojoin-only-one", daemon=True)

    def __enter__(self) -> Self:
        log = KafkaLog(self._config)
        try:
            log.create_topics({topic_name(self._query, Topic.GENERATIONS): 1}, self._topic_config)
        finally:
            log.close()
        holders = self.holders()
        if holders:
            raise ConfigurationError(
                f"{self._query} is served on the Kafka at {self._config.bootstrap} already, by {holders[0]}: end that "
                "one first, or give this query another name"
            )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(2 * POLL_S)

    def holders(self) -> list[str]:
        """The processes that serve the query with `spojoin up`; none if this user may not see groups."""
        admin = AdminClient(self._config.common())
        try:
            found = admin.describe_consumer_groups([self._group], request_timeout=ASK_S)[self._group].result()
        except KafkaException:
            return []
        return [str(member.client_id) for member in found.members]

    def _hold(self) -> None:
        properties: dict[str, Any] = {
            **self._config.common(),
            "group.id": self._group,
            "client.id": f"process {os.getpid()} of {socket.gethostname()}",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": SESSION_MS // 3,
            "enable.auto.commit": False,
            "error_cb": lambda _error: None,
        }
        consumer = Consumer(properties)
        try:
            consumer.subscribe([topic_name(self._query, Topic.GENERATIONS)])
            while not self._ended.is_set():
                consumer.poll(POLL_S)
        except KafkaException:
            return
        finally:
            consumer.close()
