"""Begins a query's next generation where its results end, and says what was begun."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from spojoin.local.reachable import check_kafka
from spojoin.model import Query
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.runtime.restore import Restoration, Restored
from spojoin.runtime.settings import load_settings


def restore_query(
    query: Query,
    query_file: Path,
    bootstrap: str,
    old: str | None,
    accepts_again: bool,
) -> Iterator[str]:
    """What was done, in sentences. old: the Kafka that the query is moved from, if it is.

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
    """What was begun, and what it costs."""
    if begun.is_by_services:
        yield f"generation {begun.generation} of {query.name} begins: its services handed over by themselves"
        return
    yield f"generation {begun.generation} of {query.name} begins where its results end; it reads on from"
    yield from (f"  {topic} offset {offset}" for topic, offset in begun.source.items())
    if begun.again:
        yield f"up to {begun.again:,} answers come again, with another generation in their headers"
    if begun.emptied:
        yield f"made anew, and taken from their first row on: {', '.join(begun.emptied)}"
