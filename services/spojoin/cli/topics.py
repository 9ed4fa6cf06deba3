"""A query's topics: creates them and prints its results."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import orjson

from spojoin.embedded.writers import TEXT_ROWS, json_lines
from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.ports.interfaces import Log, LogPartition, LogReader, LogRecord
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topic_config import DEFAULTS, TopicKind
from spojoin.protocol.topology import Topic, topic_name
from spojoin.runtime.generations import GenerationsTopic
from spojoin.runtime.packed import topics_needed
from spojoin.runtime.registry import RegisteredResults
from spojoin.runtime.service import create_topics
from spojoin.runtime.settings import Settings
from spojoin.runtime.topics import Topics, create_inputs
from spojoin.wire.chain import ResultSequence
from spojoin.wire.registered import PREFIX_BYTES
from spojoin.wire.results import (
    BEGIN,
    CONTENT_TYPE,
    JSON,
    REGISTERED_AVRO,
    REGISTERED_JSON,
    progress,
    result_from_message,
)

POLL_S = 0.5
RECORDS_MAX = 1_000


def kafka_of(settings: Settings) -> KafkaConfig:
    """How the settings reach Kafka."""
    return KafkaConfig(settings.bootstrap_servers, settings.kafka_properties())


def make_topics(query: Query, settings: Settings, partitions: int | None) -> dict[str, int]:
    """Make the topics of the generation that answers, and the inputs if their number of `partitions` is given.

    Returns the partitions of each. Raises LogUnavailable where Kafka does not answer, or refuses.
    """
    log = KafkaLog(kafka_of(settings))
    try:
        configs = settings.topic_configs
        generation = current_generation(log, query.name, configs.of(TopicKind.INTERNAL))
        topics = Topics.of(query, settings.workers_max, settings.input_topics, generation)
        needed = topics_needed(settings)
        create_topics(log, topics, configs, needed)
        if partitions is not None:
            create_inputs(log, topics, partitions, configs)
        inputs = topics.fed if partitions is not None else ()
        return {name: log.partitions(name) for name in (*inputs, *topics.trimmed(needed), *topics.kept())}
    finally:
        log.close()


def current_generation(log: Log[bytes], query: str, config: Mapping[str, str] = DEFAULTS[TopicKind.INTERNAL]) -> int:
    """The generation of a query that answers; creates its topic if missing. Raises LogUnavailable."""
    log.create_topics({topic_name(query, Topic.GENERATIONS): 1}, config)
    return GenerationsTopic(log, query).read().current_number


def print_results(query: Query, settings: Settings, out: BinaryIO, *, is_following: bool) -> None:
    """Write all results as JSON lines, in order, each once; wait for more if `is_following`."""
    log = KafkaLog(kafka_of(settings))
    source = LogPartition(topic_name(query.name, Topic.RESULTS), 0)
    partitions_of(log, source.topic)
    reader = log.reader()
    try:
        end = None if is_following else log.bounds(source).end
        reader.open(source, log.bounds(source).earliest)
        records = _records(reader, lambda: end is not None and reader.position(source) >= end)
        for text in _texts(records, RegisteredResults(settings)):
            out.write(text)
            out.flush()
    finally:
        reader.close()
        log.close()


def partitions_of(log: Log[bytes], topic: str) -> int:
    """How many partitions a topic has. Raises ConfigurationError where there is no such topic."""
    count = log.partitions(topic)
    if not count:
        raise ConfigurationError(f"Kafka has no topic {topic!r}: start the services first (spojoin up), or make it")
    return count


def _records(reader: LogReader[bytes], is_at_end: Callable[[], bool]) -> Iterator[LogRecord[bytes]]:
    while True:
        found = reader.poll(RECORDS_MAX, POLL_S)
        yield from found
        if not found and is_at_end():
            return


def _line(row: dict[str, Any]) -> bytes:
    return orjson.dumps(row, default=_as_text) + b"\n"


def _as_text(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _texts(records: Iterable[LogRecord[bytes]], registered: RegisteredResults) -> Iterator[bytes]:
    """New results as JSON lines, from any format of the topic."""
    chain = ResultSequence()
    for record in records:
        headers = dict(record.headers)
        if not chain.takes(int(headers[BEGIN]), progress(headers)):
            continue
        if headers.get(CONTENT_TYPE) == JSON:
            yield record.value + b"\n" if record.value else b""
        elif headers.get(CONTENT_TYPE) == REGISTERED_JSON:
            yield record.value[PREFIX_BYTES:] + b"\n" if record.value else b""
        elif headers.get(CONTENT_TYPE) == REGISTERED_AVRO:
            yield _line(registered.row(record.value)) if record.value else b""
        else:
            rows = result_from_message(headers, record.value).rows
            yield from (bytes(json_lines(rows.slice(at, TEXT_ROWS))) for at in range(0, rows.num_rows, TEXT_ROWS))
