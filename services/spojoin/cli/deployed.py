"""Checks before a query is deployed: everything that a service would refuse at its start."""

# A query can be checked without the packages of the services, so their imports stand where they are needed.
# ruff: noqa: PLC0415

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.ports.interfaces import Log, LogUnavailable
from spojoin.protocol.topology import Topic, topic_name
from spojoin.query.load import load_served_query

if TYPE_CHECKING:
    from spojoin.runtime.wiring import Wire

#: The check asks twice, so a deployment waits at most ten seconds for a Kafka that doesn't answer.
REQUEST_TIMEOUT_S = 5.0


def load_deployed(query_file: Path) -> Query:
    """The query, as services with the environment's settings run it. Raises ConfigurationError and QueryError."""
    from spojoin.runtime.generations import Serving
    from spojoin.runtime.settings import load_settings

    settings = load_settings(query_file=query_file)
    query = load_served_query(query_file)
    # The router checks everything that concerns both query and settings.
    router = importlib.import_module("spojoin.roles.router.__main__")
    cast("Wire", router.wire)(Serving(query), settings)
    settings.check_kafka_names()
    return query


def check_running(query: Query, query_file: Path) -> str:
    """Ask the settings' Kafka which query is served under this name; returns why that stays unknown, else "".

    Raises ConfigurationError where it is another one and replacing is not allowed, and where Kafka answers and can't be
    used: it refuses this user, say, or names listeners that aren't reached from here.
    """
    from spojoin.ports.kafka import KafkaConfig, KafkaLog
    from spojoin.runtime.settings import load_settings

    settings = load_settings(query_file=query_file)
    properties = settings.kafka_properties()
    if why := unreached(settings.bootstrap_servers, properties):
        return f"not compared with the query that is served, which the services will do at their start: {why}"
    config = KafkaConfig(settings.bootstrap_servers, properties, request_timeout_s=REQUEST_TIMEOUT_S)
    log = KafkaLog(config)
    try:
        return compare_with_running(log, query, replace=settings.replace)
    finally:
        log.close()


def unreached(bootstrap: str, properties: Mapping[str, object]) -> str:
    """Why no Kafka answers, which may come later than this check; empty where one does.

    Raises ConfigurationError where one does and can't be used.
    """
    from spojoin.local.reachable import NotThere, check_kafka_takes

    try:
        check_kafka_takes(bootstrap, properties, "SPOJOIN_BOOTSTRAP_SERVERS")
    except NotThere as error:
        return str(error)
    return ""


def compare_with_running(log: Log[bytes], query: Query, *, replace: bool) -> str:
    """As `check_running`, over a given log."""
    from spojoin.runtime.generations import check_generation

    topic = topic_name(query.name, Topic.GENERATIONS)
    try:
        if not log.partitions(topic):
            return f"no query is served under the name {query.name!r} yet: Kafka has no topic {topic!r}"
        check_generation(log, query, replace=replace)
    except LogUnavailable as error:
        return f"not compared with the query that is served, which the services will do at their start: {error}"
    return ""


def check_partials(query: Query, partitions: int | None) -> None:
    """Raises ConfigurationError where the topic of partials has too few partitions; None: services create it."""
    predicates = len(query.predicates)
    if partitions is not None and partitions < predicates:
        raise ConfigurationError(
            f"the query has {predicates} predicates, and its topic of partials would have {partitions} partitions: "
            f"set strimzi.topics.predicates to {predicates} or more"
        )


def check_names(query: Query, named: Collection[str]) -> None:
    """Raises ConfigurationError where topics would be named after anything but the query and its streams."""
    names = {query.name, *(stream.name for stream in query.streams)}
    for name in sorted(names.difference(named) if named else ()):
        raise ConfigurationError(
            f"the names in the query are {', '.join(sorted(names))}, and the chart read {', '.join(sorted(named))}: "
            f"put {name} in quotes in the query file"
        )
