"""What is checked before a query is deployed: all that a service would refuse at its start."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from pathlib import Path
from typing import cast

from spojoin.errors import ConfigurationError
from spojoin.query.load import load_served_query
from spojoin.query.model import Query
from spojoin.runtime.generations import Serving
from spojoin.runtime.settings import load_settings
from spojoin.runtime.wiring import Wire


def load_deployed(query_file: Path) -> Query:
    """The query, as services with the environment's settings run it. Raises ConfigurationError and QueryError."""
    settings = load_settings(query_file=query_file)
    query = load_served_query(query_file)
    # The router is told of all that concerns query and settings both.
    router = importlib.import_module("spojoin.router.__main__")
    cast("Wire", router.wire)(Serving(query), settings)
    return query


def check_partials(query: Query, partitions: int | None) -> None:
    """Raises ConfigurationError where the topic of partials has too few partitions; None for what services make."""
    predicates = len(query.predicates)
    if partitions is not None and partitions < predicates:
        raise ConfigurationError(
            f"the query has {predicates} predicates, and its topic of partials is to have {partitions} partitions: "
            f"set strimzi.topics.predicates to {predicates} or more"
        )


def check_names(query: Query, named: Collection[str]) -> None:
    """Raises ConfigurationError where topics are to be named by something else than the query and its streams."""
    names = {query.name, *(stream.name for stream in query.streams)}
    for name in sorted(names.difference(named) if named else ()):
        raise ConfigurationError(
            f"the names in the query are {', '.join(sorted(names))}, and the chart read {', '.join(sorted(named))}: "
            f"put {name} between quotes in the query file"
        )
