"""The query that a service was given or, if that can't be read or run, the one that its release already serves."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass

from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.ports.interfaces import LogUnavailable
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topology import Topic, topic_name
from spojoin.query.load import load_served_query
from spojoin.runtime.generations import GenerationsTopic, announced_query, is_owners
from spojoin.runtime.settings import Settings

#: The query's name, found without understanding the rest of the file.
_NAME = re.compile(r"""^name:\s*["']?([^\s"'#]+)""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class QueryToServe:
    """A query to serve; `refusal`: why it isn't the one in the query file, empty if it is."""

    query: Query
    refusal: str = ""

    def judging(self, judged: Callable[[str], None]) -> Callable[[str], None]:
        """`judged` for the part that decides about this query; it also reports why the file's query isn't served."""
        return lambda refusal: judged(refusal or self.refusal)


def choose_query(settings: Settings, check: Callable[[Query], object] = lambda _: None) -> QueryToServe:
    """The query in the settings' file; `check` raises ConfigurationError if the service can't run it.

    If the file's query can't be run, a release goes on with the query that it already serves under that name: otherwise
    a faulty file, applied by a tool that runs no hooks, would end the release. Without one, raises the file's error.
    """
    try:
        query = load_served_query(settings.query_file)
        check(query)
    except ConfigurationError as error:
        served = _served(settings) if settings.is_release else None
        if served is None:
            raise
        check(served)
        return QueryToServe(served, str(error))
    return QueryToServe(query)


def _served(settings: Settings) -> Query | None:
    """The query that is served under the name in the settings' file; None if there is none, or it can't be read."""
    with suppress(OSError, UnicodeDecodeError, LogUnavailable):
        name = _NAME.search(settings.query_file.read_text(encoding="utf-8"))
        if name is not None:
            with closing(KafkaLog(KafkaConfig(settings.bootstrap_servers, settings.kafka_properties()))) as log:
                return _announced(log, name[1], settings)
    return None


def _announced(log: KafkaLog, name: str, settings: Settings) -> Query | None:
    if not log.partitions(topic_name(name, Topic.GENERATIONS)):
        return None
    found = GenerationsTopic(log, name).read()
    if found.wanted is None or not is_owners(found, settings.owner, settings.adopt):
        return None
    return announced_query(found.wanted)
