"""Parses the messages of an input partition to rows, and recognises each message's format.

`formats` lists the formats. The messages of one format are read together; whether a row is valid, and its codes, never
depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spojoin.model import Query, Stream
from spojoin.reading.formats import NO_VALUE, by_format
from spojoin.reading.original_rows import OriginalRows
from spojoin.reading.parsing import Message, Parsing
from spojoin.reading.registered_rows import RegisteredSchemas
from spojoin.wire.records import Rows

#: Without a registry.
NO_SCHEMAS = RegisteredSchemas()


def parser(query: Query, schemas: RegisteredSchemas) -> Callable[[int, int, Sequence[Message]], Rows]:
    """The function that makes rows of messages of a partition of one of a query's inputs."""
    return lambda stream, partition, messages: parse_messages(
        query.inputs[stream], query.needs_time, stream, partition, messages, schemas
    )


def parse_messages(
    stream: Stream,
    needs_time: bool,
    index: int,
    partition: int,
    messages: Sequence[Message],
    schemas: RegisteredSchemas = NO_SCHEMAS,
) -> Rows:
    """The rows of at least one message, in order, and a dead letter for each row or message that can't take part.

    `index` is the stream's number in the query. Reasons: malformed, missing-field, type, null, nan, unit, overflow,
    time, schema (no schema reads the message), delete (it deletes a row). If the stream names no key, a row's key is
    "partition:offset", or "partition:offset:row" if its message has several.
    """
    if not messages:
        raise ValueError("parse() takes at least one message: without one there is no next offset")
    parsing = Parsing(stream, needs_time, index, partition, messages, schemas, OriginalRows)
    for found, places in by_format(messages).items():
        found.read(parsing, places if found is NO_VALUE else parsing.timed(places))
    return parsing.rows()
