"""Checks before a query is deployed: everything that a service would refuse at its start."""

# A query can be checked without the packages of the services, so their imports stand where they are needed.
# ruff: noqa: PLC0415

from __future__ import annotations

import importlib
import os
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, cast

from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.ports.interfaces import Log, LogUnavailable
from spojoin.protocol.topology import Topic, topic_name
from spojoin.query.load import load_served_query

if TYPE_CHECKING:
    from spojoin.runtime.settings import Settings
    from spojoin.runtime.wiring import Wire

#: How long a deployment waits for an answer of a Kafka that is there.
REQUEST_TIMEOUT_S = 5.0


def load_deployed(query_file: Path, settings: Settings) -> Query:
    """The query, as services with these settings run it. Raises ConfigurationError and QueryError."""
    from spojoin.runtime.generations import Serving

    query = load_served_query(query_file)
    # The router checks everything that concerns both query and settings.
    router = importlib.import_module("spojoin.roles.router.__main__")
    cast("Wire", router.wire)(Serving(query), settings)
    settings.check_kafka_names()
    return query


def deployed_settings(query_file: Path, *, is_coming: bool) -> Settings:
    """The environment's settings. Where this user of Kafka `is_coming`, its password may be missing: none would fit."""
    from spojoin.runtime.settings import ENV_PREFIX, load_settings

    name = f"{ENV_PREFIX}KAFKA_PASSWORD"
    is_missing = f"{ENV_PREFIX}KAFKA_USERNAME" in os.environ and not {name, f"{name}_FILE"} & os.environ.keys()
    return load_settings(query_file=query_file, kafka_password="?" if is_coming and is_missing else None)


def check_running(query: Query, settings: Settings, *, is_coming: bool = False) -> str:
    """Ask the settings' Kafka which query is served under this name, and whose it is; returns what stays open, else "".

    Raises ConfigurationError where it is another query and replacing is not allowed, or another's name; and where Kafka
    can't be asked, unless `is_coming`: what is being installed brings it, or this user of it.
    """
    from spojoin.local.reachable import check_kafka_takes
    from spojoin.ports.kafka import KafkaConfig, KafkaLog

    properties = settings.kafka_properties()
    config = KafkaConfig(settings.bootstrap_servers, properties, request_timeout_s=REQUEST_TIMEOUT_S)
    try:
        check_kafka_takes(settings.bootstrap_servers, properties, "SPOJOIN_BOOTSTRAP_SERVERS")
    except ConfigurationError as error:
        if is_coming:
            return _not_compared(error)
        raise
    with closing(KafkaLog(config)) as log:
        try:
            return compare_with_running(log, query, settings)
        except LogUnavailable as error:
            if is_coming:
                return _not_compared(error)
            raise ConfigurationError(
                f"the Kafka at {settings.bootstrap_servers} doesn't say which query is served under the name "
                f"{query.name!r} ({error}): try again when it answers"
            ) from error


def _not_compared(error: Exception) -> str:
    return f"not compared with the query that is served, which the services will do at their start: {error}"


def compare_with_running(log: Log[bytes], query: Query, settings: Settings) -> str:
    """As `check_running`, over a given log. Raises LogUnavailable."""
    from spojoin.runtime.generations import check_generation

    topic = topic_name(query.name, Topic.GENERATIONS)
    if not log.partitions(topic):
        return f"no query is served under the name {query.name!r} yet: Kafka has no topic {topic!r}"
    check_generation(log, query, replace=settings.replace, owner=settings.owner, adopt=settings.adopt)
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
