"""Which columns of a stream's messages are read."""

from __future__ import annotations

from collections.abc import Iterator

from spojoin.query.model import Arithmetic, Column, Expression, Stream


def columns_needed(stream: Stream, needs_time: bool) -> list[str]:
    """Those of the key expressions, then the event time where it counts, then the users' key; each once."""
    names = [name for key in stream.keys for name in _columns_of(key.expression)]
    names += [stream.time] if needs_time and stream.time else []
    names += [stream.key] if stream.key else []
    return list(dict.fromkeys(names))


def columns_of_a_line(stream: Stream) -> list[str]:
    """What a CSV line holds: the declared columns, then time and key where they are not among them."""
    return list(dict.fromkeys([*stream.schema, *filter(None, (stream.time, stream.key))]))


def _columns_of(expression: Expression) -> Iterator[str]:
    if isinstance(expression, Column):
        yield expression.name
    elif isinstance(expression, Arithmetic):
        yield from _columns_of(expression.left)
        yield from _columns_of(expression.right)
