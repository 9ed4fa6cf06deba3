"""Which columns of a stream's messages are read."""

from __future__ import annotations

from spojoin.model import Stream
from spojoin.query.schema import arrow_schema


def columns_needed(stream: Stream, needs_time: bool) -> list[str]:
    """Those of the key expressions, then the event time where it counts, then the users' key; each once."""
    return list(arrow_schema(stream, needs_time).names)


def columns_of_a_line(stream: Stream) -> list[str]:
    """What a CSV line holds: the declared columns, then time and key where they are not among them."""
    return list(dict.fromkeys([*stream.schema, *filter(None, (stream.time_column, stream.key))]))
