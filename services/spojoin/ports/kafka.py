"""The log port over Kafka, with confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import structlog
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from spojoin.errors import ConfigurationError
from spojoin.ports.credentials import Properties
from spojoin.ports.interfaces import Bounds, LogPartition, LogUnavailable
from spojoin.ports.kafka_client import CLIENT_LOGGER, OnTraffic, unheard
from spojoin.ports.kafka_reach import ClientReports
from spojoin.ports.kafka_reader import KafkaReader
from spojoin.ports.kafka_writer import KafkaWriter
from spojoin.protocol.topic_config import DEFAULTS, REPLICATION, TopicKind
from spojoin.protocol.topology import MESSAGE_BYTES_MAX

#: how long to wait for a leader that the client doesn't know; see `_offset`
LEADER_TIMEOUT_S = 2.0

_EARLIEST, _LATEST = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]

_log = structlog.get_logger(__name__)


class TopicPlace(NamedTuple):
    """The number of a topic's partitions, and the least number of replicas of a partition."""

    partitions: int
    replicas: int


@dataclass(frozen=True, slots=True)
class KafkaConfig:
    """How to reach a cluster and how to use it.

    `extra` holds further properties of every client, mostly for security. `request_timeout_s` bounds each request to
    the cluster. `delivery_timeout_s`, longer than a broker's restart, is how long an append is tried before it counts
    as ambiguous. `on_error` gets the errors that readers and writers report but don't raise: mostly absent brokers.
    `on_traffic` gets what each of them has exchanged with brokers, every two seconds.
    """

    bootstrap: str
    extra: Properties = field(default_factory=dict, repr=False)
    compression: str = "none"
    request_timeout_s: float = 10.0
    delivery_timeout_s: float = 45.0
    on_error: Callable[[KafkaError], None] = lambda _: None
    on_traffic: OnTraffic = unheard

    def common(self) -> Properties:
        """Properties of every client."""
        return {
            "bootstrap.servers": self.bootstrap,
            "socket.nagle.disable": True,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
            # a broker that is briefly away isn't worth a log line; serious problems are returned as errors
            "log_level": 2,
            **self.extra,
        }

    def watched(self) -> dict[str, object]:
        """The properties of every client, with the callback for errors."""
        return {**self.common(), "error_cb": self.on_error}


class KafkaLog:
    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._admin_client: AdminClient | None = None
        self._reports = ClientReports(config.bootstrap, config.extra)

    def create_topics(
        self, partitions: Mapping[str, int], config: Mapping[str, str] = DEFAULTS[TopicKind.INTERNAL]
    ) -> None:
        """Make sure that each topic exists with at least the given partitions; existing topics keep their config.

        A new topic has as many replicas as `config` says, or the cluster's default. If all exist, the user only needs
        the right to see them. Raises LogUnavailable if the cluster does not answer, or refuses, and ConfigurationError
        if it refuses the configuration.
        """
        existing = self._partition_counts()
        own = {name: value for name, value in config.items() if name != REPLICATION}
        replicas = int(config.get(REPLICATION, -1))
        missing = [topic for topic in partitions if topic not in existing]
        small = [topic for topic, count in partitions.items() if 0 < existing.get(topic, 0) < count]
        timeout_s = self._config.request_timeout_s
        if missing:
            topics = [NewTopic(topic, partitions[topic], replicas, config=own) for topic in missing]
            made = self._admin.create_topics(topics, operation_timeout=timeout_s, request_timeout=timeout_s)
            self._await(made, allowed=_TOPIC_IS_THERE)
        if small:
            added = [NewPartitions(topic, partitions[topic]) for topic in small]
            made = self._admin.create_partitions(added, operation_timeout=timeout_s, request_timeout=timeout_s)
            self._await(made, allowed=_PARTITIONS_ARE_THERE)
        for topic in (*missing, *small):
            self._wait_for_leaders(topic, partitions[topic])

    def listed(self) -> dict[str, TopicPlace]:
        """All topics that this user may see. Raises LogUnavailable."""
        return self._places()

    def configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """The configuration of each topic by Kafka's names, including defaults. Raises LogUnavailable."""
        if not topics:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        found: dict[str, dict[str, str]] = {}
        timeout_s = self._config.request_timeout_s
        for resource, future in self._admin.describe_configs(resources, request_timeout=timeout_s).items():
            try:
                found[resource.name] = {name: entry.value for name, entry in future.result().items()}
            except KafkaException as error:
                if _is_refused(error.args[0]):
                    raise _refused(resource.name) from error
                raise LogUnavailable(f"topic {resource.name!r} can't be described: {error.args[0]}") from error
        return found

    def configure(self, changes: Mapping[str, Mapping[str, str]]) -> None:
        """Set the configuration of existing topics, by topic and Kafka's name. Raises what `create_topics` raises."""
        if not changes:
            return
        operation = AlterConfigOpType.SET
        resources = [
            ConfigResource(
                ResourceType.TOPIC,
                topic,
                incremental_configs=[ConfigEntry(*each, incremental_operation=operation) for each in config.items()],
            )
            for topic, config in changes.items()
        ]
        futures = self._admin.incremental_alter_configs(resources, request_timeout=self._config.request_timeout_s)
        named = {resource.name: future for resource, future in futures.items()}
        self._await(named, allowed=frozenset(), done="configured")

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Ask Kafka to delete the topics that exist. Raises LogUnavailable if the cluster refuses."""
        # asked to delete a topic twice at once, Kafka's client ends the process
        found = [topic for topic in dict.fromkeys(topics) if self.partitions(topic)]
        if found:
            deleted = self._admin.delete_topics(found, request_timeout=self._config.request_timeout_s)
            self._await(deleted, allowed=_TOPIC_IS_GONE, done="deleted")

    def partitions(self, topic: str) -> int:
        """The number of a topic's partitions; 0 if there is no such topic."""
        return self._partition_counts(topic).get(topic, 0)

    def topic_id(self, topic: str) -> str:
        """An id that distinguishes a topic from an earlier one with the same name."""
        found = self.topic_ids([topic])
        if topic not in found:
            raise LogUnavailable(f"there is no topic {topic!r}")
        return found[topic]

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """The ids of the topics that exist, in one request."""
        found: dict[str, str] = {}
        wanted = TopicCollection(list(topics))
        asked = self._admin.describe_topics(wanted, request_timeout=self._config.request_timeout_s)
        for topic, future in asked.items():
            try:
                found[topic] = str(future.result().topic_id)
            except KafkaException as error:
                if _is_refused(error.args[0]):
                    raise _refused(topic) from error
                if error.args[0].code() not in _TOPIC_IS_GONE:
                    raise LogUnavailable(f"topic {topic!r} can't be described: {error.args[0]}") from error
        return found

    def bounds(self, source: LogPartition) -> Bounds:
        """The retained offsets; `end` is the last stable offset."""
        return Bounds(self._offset(source, _EARLIEST), self.end(source))

    def end(self, source: LogPartition) -> int:
        """The last stable offset."""
        return self._offset(source, _LATEST)

    def trim(self, source: LogPartition, before: int) -> None:
        """Ask Kafka to delete records before an offset; a failure is logged, and the next trim repairs it."""
        futures = self._admin.delete_records([TopicPartition(*source, before)])
        for future in futures.values():
            future.add_done_callback(lambda done: _report_trim(source, before, done))

    def reader(self) -> KafkaReader:
        """A reader with no inputs yet."""
        return KafkaReader(self._config.watched(), MESSAGE_BYTES_MAX, self._config.on_traffic)

    def writer(self, transactional_id: str | None = None) -> KafkaWriter:
        """A writer; with an id its flushes are transactions and all older writers of that id are fenced."""
        properties = self._config.watched() | {
            "compression.type": self._config.compression,
            "message.max.bytes": MESSAGE_BYTES_MAX,
            "delivery.timeout.ms": int(self._config.delivery_timeout_s * 1000),
        }
        return KafkaWriter(properties, transactional_id, self._config.delivery_timeout_s, self._config.on_traffic)

    def close(self) -> None:
        self._admin_client = None

    @property
    def _admin(self) -> AdminClient:
        if self._admin_client is None:
            properties: dict[str, Any] = {**self._config.common(), "error_cb": self._reports.hear}
            self._admin_client = AdminClient(properties, logger=CLIENT_LOGGER)
        return self._admin_client

    def _why(self, error: KafkaException) -> str:
        """The client's report about brokers, since the request itself fails with only a timeout."""
        self._admin.poll(0)
        return self._reports.why() or str(error.args[0])

    def _partition_counts(self, topic: str | None = None) -> dict[str, int]:
        return {name: place.partitions for name, place in self._places(topic).items()}

    def _places(self, topic: str | None = None) -> dict[str, TopicPlace]:
        self._reports.forget()
        try:
            found = self._admin.list_topics(topic, timeout=self._config.request_timeout_s).topics
        except KafkaException as error:
            reason = self._why(error)
            # A client that loses the only broker may never look for it again; a new client does.
            self.close()
            what = "can't be used" if self._reports.answers else "does not answer"
            raise LogUnavailable(f"Kafka at {self._config.bootstrap} {what}: {reason}") from error
        if topic is not None and _is_refused(found[topic].error):
            raise _refused(topic)
        there = {name: list(entry.partitions.values()) for name, entry in found.items() if entry.error is None}
        return {
            name: TopicPlace(len(partitions), min((len(each.replicas) for each in partitions), default=0))
            for name, partitions in there.items()
        }

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        """Wait until new partitions have leaders, which takes some milliseconds."""
        for partition in range(partitions):
            self._offset(LogPartition(topic, partition), _LATEST, is_new=True)

    def _offset(self, source: LogPartition, spec: OffsetSpec, *, is_new: bool = False) -> int:
        """An offset of a partition. Retries for a while if the partition exists: it may be between two leaders.

        Then the broker may also answer without an offset. The client believes that a partition has no leader until it
        looks at the topic again. If that doesn't help in half of the time, another client asks.
        """
        began, is_renewed = time.monotonic(), False
        while True:
            try:
                return self._ask_offset(source, spec)
            except KafkaException as error:
                is_there = source.partition < self._partition_counts(source.topic).get(source.topic, 0)
                share = (time.monotonic() - began) / self._config.request_timeout_s
                if not (is_there or is_new) or share > 1:
                    what = f"no offsets of {source.topic}[{source.partition}]"
                    raise LogUnavailable(f"{what}: {error.args[0]}") from error
                if share > 1 / 2 and not is_renewed:
                    self.close()
                    is_renewed = True
                time.sleep(0.02)

    def _ask_offset(self, source: LogPartition, spec: OffsetSpec) -> int:
        futures = self._admin.list_offsets(
            {TopicPartition(*source): spec},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=min(LEADER_TIMEOUT_S, self._config.request_timeout_s),
        )
        (offset,) = [int(future.result().offset) for future in futures.values()]
        if offset < 0:
            raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE, "the broker doesn't know it yet"))
        return offset

    def _await(self, futures: Mapping[str, Future[None]], allowed: frozenset[int], done: str = "made") -> None:
        for topic, future in futures.items():
            try:
                future.result()
            except KafkaException as error:
                if _is_refused(error.args[0]) and done == "made":
                    raise _not_makable(topic) from error
                if error.args[0].code() in _CONFIG_IS_REFUSED:
                    raise ConfigurationError(
                        f"topic {topic!r} could not be {done}: {error.args[0].str()}; see the setting topics"
                    ) from error
                if error.args[0].code() not in allowed:
                    raise LogUnavailable(f"topic {topic!r} could not be {done}: {self._why(error)}") from error


#: errors that mean that another process made the change first
_TOPIC_IS_THERE = frozenset({KafkaError.TOPIC_ALREADY_EXISTS})
_TOPIC_IS_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART})
_CONFIG_IS_REFUSED = frozenset({KafkaError.INVALID_CONFIG, KafkaError.POLICY_VIOLATION})
_PARTITIONS_ARE_THERE = frozenset({KafkaError.INVALID_PARTITIONS})


def _is_refused(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def _refused(topic: str) -> LogUnavailable:
    return LogUnavailable(f"Kafka refuses this user the topic {topic!r}: give it the rights that its role needs")


def _not_makable(topic: str) -> LogUnavailable:
    """The error for a topic that can't be created; the broker hides whether it exists if the user may not see it."""
    return LogUnavailable(
        f"topic {topic!r} is missing or too small, or this user may not see it, and it may not make topics: "
        "run `spojoin topics QUERY` as a user who may, and give this one the rights that its role needs"
    )


def _report_trim(source: LogPartition, before: int, done: Future[object]) -> None:
    error = done.exception()
    if error is not None:
        _log.warning("trim failed", topic=source.topic, partition=source.partition, before=before, error=str(error))
