"""Options of a stream that only messages of Kafka have a meaning for."""

from __future__ import annotations

from collections.abc import Iterable

from spojoin.errors import ConfigurationError
from spojoin.model import HEADERS, RECORD_TIME, Query
from spojoin.query.schema import arrow_schema


def check_without_kafka(query: Query) -> None:
    """Raise ConfigurationError where a stream asks for what files and tables don't have."""
    check_no_envelope(query)
    if query.is_traced:
        raise ConfigurationError("'trace: true' is for records of Kafka, whose headers hold a trace: remove it")
    for stream in query.inputs:
        if HEADERS not in stream.schema and HEADERS in arrow_schema(stream, needs_time=False).names:
            raise ConfigurationError(
                f"stream {stream.name!r}: the statement names '{HEADERS}', which records of Kafka have, and files and "
                "tables don't: put a column of theirs in its place"
            )
        if stream.is_record_timed:
            raise ConfigurationError(
                f"stream {stream.name!r}: 'time: {RECORD_TIME}' is the timestamp that Kafka keeps with each record, "
                "which files and tables don't have: name a column"
            )


def check_no_envelope(query: Query) -> None:
    """Raise ConfigurationError where rows are expected within other messages."""
    for stream in query.streams:
        if stream.envelope is not None:
            raise ConfigurationError(
                f"stream {stream.name!r}: 'envelope: {stream.envelope}' is for messages that others write into Kafka; "
                "rows of files and tables stand alone: remove it"
            )


def check_no_results(query: Query, names: Iterable[str]) -> None:
    """Raise ConfigurationError where the rows of a stream of these names are the results of another query."""
    chosen = set(names)
    for stream in query.streams:
        if stream.query is not None and stream.name in chosen:
            raise ConfigurationError(
                f"stream {stream.name!r} takes in the results of query {stream.query}: send rows to the inputs of that "
                "query"
            )
