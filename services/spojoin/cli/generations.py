"""Generations of a served query in Kafka: where one began, and where the next one begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from spojoin.cli.topics import kafka_config
from spojoin.errors import ConfigurationError
from spojoin.local.reachable import check_kafka
from spojoin.model import Order, Query
from spojoin.ports.interfaces import Log
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topology import Topic, topic_name
from spojoin.roles.router.__main__ import wire
from spojoin.runtime.backfill import InputHistory
from spojoin.runtime.generation_start import GenerationStart, find_generation_start
from spojoin.runtime.generations import GenerationsTopic, Serving
from spojoin.runtime.restore import Restoration, Restored
from spojoin.runtime.settings import Settings, load_settings
from spojoin.runtime.topics import Topics

if TYPE_CHECKING:
    from spojoin.runtime.feeds import Parse


def generation_beginning(query: Query, query_file: Path, bootstrap: str, order_column: str) -> GenerationStart:
    """Where the generation that answers a query began, as a value of the column that orders its rows.

    The connection to Kafka also comes from the services' variables. Raises ConfigurationError and LogUnavailable.
    """
    settings = load_settings(query_file=query_file, bootstrap_servers=bootstrap)
    log = KafkaLog(kafka_config(settings))
    try:
        return _began(log, query, settings, order_column)
    finally:
        log.close()


def _began(log: Log[bytes], query: Query, settings: Settings, order_column: str) -> GenerationStart:
    topic = topic_name(query.name, Topic.GENERATIONS)
    if not log.partitions(topic):
        raise ConfigurationError(f"Kafka has no topic {topic!r}: no query of this name is served")
    topics = Topics.for_query(query, 1, settings.input_topics)
    history = InputHistory(log, topics.flowing, _parse(query, settings, order_column))
    return find_generation_start(history, query, GenerationsTopic(log, query.name).read(), settings.input_topics)


def _parse(query: Query, settings: Settings, order_column: str) -> Parse:
    """A parser that reads messages as the router does; in arrival order, the column that orders rows is their key."""
    if query.order.by is Order.ARRIVAL:
        keyed = tuple(dataclasses.replace(stream, key=order_column) for stream in query.streams)
        query = dataclasses.replace(query, streams=keyed)
    found = wire(Serving(query), settings).parse
    if found is None:
        raise TypeError("the router parses no messages")
    return found


def restore_query(
    query: Query,
    query_file: Path,
    bootstrap: str,
    old: str | None,
    accepts_again: bool,
) -> Iterator[str]:
    """Restore a query and say what was done, in sentences. old: the Kafka from which it is moved, if any.

    Raises ConfigurationError and LogUnavailable.
    """
    settings = load_settings(query_file=query_file, bootstrap_servers=bootstrap)
    properties = settings.kafka_properties()
    with ExitStack() as stack:
        logs = []
        for option, servers in (("--bootstrap", bootstrap), *([] if old is None else [("--from", old)])):
            check_kafka(servers, properties, option)
            logs.append(KafkaLog(KafkaConfig(servers, properties)))
            stack.callback(logs[-1].close)
        begun = Restoration(logs[0], query, settings.input_topics, *logs[1:]).begin(accepts_again=accepts_again)
    yield from sentences(query, begun)


def sentences(query: Query, begun: Restored) -> Iterator[str]:
    """Sentences on the generation that has begun, and on its cost."""
    if begun.is_by_services:
        yield f"generation {begun.generation} of {query.name} begins: its services handed over by themselves"
        return
    yield f"generation {begun.generation} of {query.name} begins where its results end; it continues to read from"
    yield from (f"  {topic} offset {offset}" for topic, offset in begun.source.items())
    if begun.again:
        yield f"up to {begun.again:,} answers come twice, with another generation in their headers"
    if begun.emptied:
        yield f"created again, and read from their first row: {', '.join(begun.emptied)}"
