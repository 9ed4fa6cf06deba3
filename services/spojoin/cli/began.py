"""Asks Kafka where the generation that answers a query began."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, cast

from spojoin.cli.topics import kafka_of
from spojoin.errors import ConfigurationError
from spojoin.model import Order, Query
from spojoin.ports.interfaces import Log
from spojoin.ports.kafka import KafkaLog
from spojoin.protocol.topology import Topic, topic_name
from spojoin.runtime.backfill import InputHistory
from spojoin.runtime.began import Began, began
from spojoin.runtime.generations import GenerationsTopic, Serving
from spojoin.runtime.settings import Settings, load_settings
from spojoin.runtime.topics import Topics

if TYPE_CHECKING:
    from spojoin.runtime.inputs import Parse
    from spojoin.runtime.wiring import Wire


def began_of(query: Query, query_file: Path, bootstrap: str, order_column: str) -> Began:
    """Where the generation that answers a query began, by the column that orders its rows.

    The connection to Kafka comes from the services' variables as well. Raises ConfigurationError, LogUnavailable.
    """
    settings = load_settings(query_file=query_file, bootstrap_servers=bootstrap)
    log = KafkaLog(kafka_of(settings))
    try:
        return _began(log, query, settings, order_column)
    finally:
        log.close()


def _began(log: Log[bytes], query: Query, settings: Settings, order_column: str) -> Began:
    topic = topic_name(query.name, Topic.GENERATIONS)
    if not log.partitions(topic):
        raise ConfigurationError(f"Kafka has no topic {topic!r}: no query of this name is served")
    topics = Topics.of(query, 1, settings.input_topics)
    history = InputHistory(log, topics.flowing, _parse(query, settings, order_column))
    return began(history, query, GenerationsTopic(log, query.name).read(), settings.input_topics)


def _parse(query: Query, settings: Settings, order_column: str) -> Parse:
    """Reads messages as the router does; in arrival order the column that orders rows is their key."""
    if query.order is Order.ARRIVAL:
        keyed = tuple(dataclasses.replace(stream, key=order_column) for stream in query.streams)
        query = dataclasses.replace(query, streams=keyed)
    router = importlib.import_module("spojoin.roles.router.__main__")
    found = cast("Wire", router.wire)(Serving(query), settings).parse
    if found is None:
        raise TypeError("the router parses no messages")
    return found
