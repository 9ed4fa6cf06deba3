"""Checks queries before they run: what services would refuse, the first rows of files, and the available methods."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.table import Table

from spojoin.columns.stream_columns import arrow_schema
from spojoin.embedded.readers import open_reader
from spojoin.errors import ConfigurationError
from spojoin.evaluation.choices import layouts, methods
from spojoin.evaluation.options import ChoiceOption
from spojoin.model import Query
from spojoin.ports.interfaces import Log, LogUnavailable
from spojoin.protocol.topology import Topic, topic_name
from spojoin.query.load import load_served_query

if TYPE_CHECKING:
    from spojoin.runtime.settings import Settings


# A query can be checked without the services' packages, so these are imported where they are needed.
# ruff: noqa: PLC0415

#: How long a deployment waits for an answer from Kafka.
REQUEST_TIMEOUT_S = 5.0


def load_deployed(query_file: Path, settings: Settings) -> Query:
    """The query, as services with these settings run it. Raises ConfigurationError and QueryError."""
    from spojoin.roles.router.__main__ import wire
    from spojoin.runtime.generations import Serving

    query = load_served_query(query_file)
    wire(Serving(query), settings)  # the router checks everything that concerns both query and settings
    settings.check_kafka_names()
    return query


def deployed_settings(query_file: Path, *, is_coming: bool) -> Settings:
    """The environment's settings. If this user of Kafka `is_coming`, its password may be missing: none would fit."""
    from spojoin.runtime.settings import ENV_PREFIX, load_settings

    name = f"{ENV_PREFIX}KAFKA_PASSWORD"
    is_missing = f"{ENV_PREFIX}KAFKA_USERNAME" in os.environ and not {name, f"{name}_FILE"} & os.environ.keys()
    return load_settings(query_file=query_file, kafka_password="?" if is_coming and is_missing else None)


def check_running(query: Query, settings: Settings, *, is_coming: bool = False) -> str:
    """Ask Kafka which query is served under this name, and for whom; returns what remains unknown, or "".

    Raises ConfigurationError if it is another query and replacing is not allowed, or if the name belongs to another;
    and if Kafka can't be asked, unless it or this user of it `is_coming` with the installation.
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
                f"the Kafka at {settings.bootstrap_servers} does not report which query is served under the name "
                f"{query.name!r} ({error}): try again when it answers"
            ) from error


def _not_compared(error: Exception) -> str:
    return f"not compared with the query that is served, which the services will do at their start: {error}"


def compare_with_running(log: Log[bytes], query: Query, settings: Settings) -> str:
    """Like `check_running`, with a given log. Raises LogUnavailable."""
    from spojoin.runtime.generations import check_generation

    topic = topic_name(query.name, Topic.GENERATIONS)
    if not log.partitions(topic):
        return f"no query is served under the name {query.name!r} yet: Kafka has no topic {topic!r}"
    check_generation(
        log, query, replace=settings.replace, owner=settings.owner, adopt=settings.adopt, sinks=settings.sinks
    )
    return ""


def check_partials(query: Query, partitions: int | None) -> None:
    """Raises ConfigurationError if the topic of partials has too few partitions; None: services create it."""
    predicates = len(query.predicates)
    if partitions is not None and partitions < predicates:
        raise ConfigurationError(
            f"the query has {predicates} predicates, and its topic of partials would have {partitions} partitions: "
            f"set strimzi.topics.predicates to {predicates} or more"
        )


def check_names(query: Query, named: Collection[str]) -> None:
    """Raises ConfigurationError if the query or a stream has a name that isn't among `named`."""
    names = {query.name, *(stream.name for stream in query.streams)}
    for name in sorted(names.difference(named) if named else ()):
        raise ConfigurationError(
            f"the names in the query are {', '.join(sorted(names))}, and the chart read {', '.join(sorted(named))}: "
            f"put {name} in quotes in the query file"
        )


def read_samples(query: Query, named: Sequence[str], rows: int) -> dict[str, pa.Table]:
    """The first `rows` rows of each stream's file; `named` holds STREAM=FILE, or FILE if there is one stream."""
    paths = dict(_stream_and_file(text, query) for text in named)
    return {stream.name: _first_rows(paths, stream.name, query, rows) for stream in query.inputs}


def _stream_and_file(text: str, query: Query) -> tuple[str, Path]:
    names = [stream.name for stream in query.inputs]
    stream, equals, path = text.partition("=")
    if equals and stream in names:
        return stream, Path(path)
    if len(names) == 1:
        return names[0], Path(text)
    raise ConfigurationError(f"--sample {text}: expected STREAM=FILE with one of the streams {', '.join(names)}")


def _first_rows(paths: dict[str, Path], name: str, query: Query, rows: int) -> pa.Table:
    if name not in paths:
        raise ConfigurationError(f"no sample for the stream {name!r}: add --sample {name}=FILE")
    stream = next(stream for stream in query.inputs if stream.name == name)
    schema = arrow_schema(stream, needs_time=False)
    reader = open_reader(paths[name], schema, stream.key)
    if stream.time_column:
        reader.check_has(stream.time_column)
    batches: list[pa.RecordBatch] = []
    for batch in reader:
        batches.append(batch.slice(0, rows - sum(each.num_rows for each in batches)))
        if sum(each.num_rows for each in batches) >= rows:
            break
    return pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches]) if batches else schema.empty_table()


def methods_table() -> Table:
    """Each method with its options, its description and its source."""
    shown = Table(title="Methods", title_justify="left", show_lines=True)
    for heading in ("method", "what", "options", "source"):
        shown.add_column(heading)
    for about in methods().values():
        shown.add_row(about.name, about.about, "\n".join(map(_told, about.options)), about.cites)
    return shown


def layouts_table() -> Table:
    """Each layout with its options, where it runs, its description and its source."""
    shown = Table(title="Layouts", title_justify="left", show_lines=True)
    for heading in ("layout", "what", "options", "runs in", "source"):
        shown.add_column(heading)
    for about in layouts().values():
        where = "run, services" if about.is_served else "run"
        shown.add_row(about.name, about.about, "\n".join(map(_told, about.options)), where, about.cites)
    return shown


def _told(option: ChoiceOption) -> str:
    return f"{option.name} = {option.default}: {option.about} ({option.expected})"
