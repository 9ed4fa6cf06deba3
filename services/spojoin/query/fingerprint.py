"""The meaning of a query, independent of its spelling: only a query of the same meaning may continue a log (rule P12).

Comments, spacing, aliases, and the order of options and streams don't count. The order of a schema's columns counts,
since CSV lines are read by position, and so does the order of conditions, since it is the order of columns in the log.
The method and the number of workers don't count, since they change no result; neither does `idle_timeout`, since the
log has the order in which rows were taken. Features that only some queries have (filters, residual conditions, a select
list, two streams of one input) are separate parts, so that the fingerprints of all other queries stay the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from spojoin.model import (
    OPERATORS,
    Aggregate,
    Column,
    Computed,
    Constant,
    Expression,
    KeyColumn,
    Order,
    Predicate,
    Query,
    SortKey,
    Stream,
)

#: The parts of a query's meaning by name, each as text.
Meaning = Mapping[str, str]

_NOTHING = "nothing"


def meaning(query: Query) -> Meaning:
    """The parts of a query's meaning by name, each as readable text."""
    return dict(_parts(query))


def fingerprint(query: Query) -> int:
    """A number of 63 bits, at least 1, that two queries share iff they mean the same."""
    digest = hashlib.blake2b(digest_size=8)
    for name, text in sorted(meaning(query).items()):
        digest.update(f"{name}\0{text}\0".encode())
    return (int.from_bytes(digest.digest(), "little") >> 1) or 1


def differences(old: Query, new: Query) -> list[str]:
    """The differences in meaning between an old and a new query, one phrase per part: "output was count, is pairs"."""
    before, after = meaning(old), meaning(new)
    names = dict.fromkeys((*before, *after))
    return [
        f"{name} was {before.get(name, _NOTHING)}, is {after.get(name, _NOTHING)}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def is_same_order(old: Query, new: Query) -> bool:
    """Whether both queries have the same event-time order, so that one can continue where the other stopped."""
    return old.order.by is new.order.by is Order.EVENT_TIME and _times(old) == _times(new)


def _times(query: Query) -> list[tuple[str, str | None, str]]:
    return [(stream.name, stream.time, str(stream.schema.get(stream.time or ""))) for stream in query.inputs]


def _parts(query: Query) -> Iterator[tuple[str, str]]:
    yield "sides", " JOIN ".join(stream.name for stream in (query.streams[0], query.streams[-1]))
    if query.shares_input:
        yield "streams", "one for each side"
    for stream in query.inputs:
        yield from _parts_of_stream(stream)
    for side, stream in zip(("left", "right"), (query.streams[0], query.streams[-1]), strict=True):
        if stream.filter is not None:
            yield f"filter of the {side} side", stream.filter.condition.sql
    yield "condition", " AND ".join(_condition(query, predicate) for predicate in query.predicates)
    if query.residuals:
        yield "residual conditions", " AND ".join(each.sql for each in query.residuals)
    results = query.results
    if results.select:
        yield "columns of results", ", ".join(f"{each.expression.sql} AS {each.name}" for each in results.select)
    yield from _parts_of_answers(query)
    if results.key is not None:
        yield "key of results", results.key
    if results.is_traced:
        yield "trace", "of the row that answered"
    yield from query.window.meaning()
    yield "order", query.order.by.value
    yield "lateness", f"{query.order.lateness_us} us"
    yield "output", results.output.value
    yield "limit", _NOTHING if results.limit is None else str(results.limit)
    options = "".join(f" {name}={value}" for name, value in query.layout.options)
    yield "layout", f"{query.layout.name}{options}"


def _parts_of_answers(query: Query) -> Iterator[tuple[str, str]]:
    """The parts of the meaning that describe the answers of a query whose rows ask."""
    if not query.asks:
        return
    answers = query.answers
    yield "answers", f"{answers.join.value} join, at {answers.emit.value}"
    if answers.grouped is not None:
        yield "aggregates", ", ".join(map(_aggregate, answers.grouped.aggregates))
        if answers.grouped.having is not None:
            yield "condition on groups", answers.grouped.having.sql
    if answers.best is not None:
        count = f"{answers.best.count}{' and all ties' * answers.best.has_ties}"
        yield "best partners", f"{count} by {_order(answers.best.order)}"
    if answers.where is not None:
        yield "condition on results", answers.where.sql


def _aggregate(one: Aggregate) -> str:
    given = ", ".join(argument.sql for argument in one.arguments) or "*"
    share = "" if one.share is None else f", {one.share}"
    chosen = "" if one.filter is None else f" where {one.filter.sql}"
    order = f" order by {_order(one.order)}" if one.order else ""
    distinct, separator = "distinct " * one.is_distinct, f", {one.separator!r}" if one.separator else ""
    return f"{one.function.name}({distinct}{given}{share}{separator}{order}){chosen}"


def _order(keys: Iterable[SortKey]) -> str:
    return ", ".join(
        f"{key.expression.sql}{' DESC' if key.is_descending else ''}{' NULLS FIRST' if key.nulls_first else ''}"
        for key in keys
    )


def _parts_of_stream(stream: Stream) -> Iterator[tuple[str, str]]:
    for name, kind in stream.schema.items():
        yield f"type of {stream.name}.{name}", str(kind)
    yield f"columns of {stream.name}", ", ".join(stream.schema)
    yield f"time of {stream.name}", stream.time or _NOTHING
    yield f"key of {stream.name}", stream.key or _NOTHING
    if stream.envelope is not None:  # without one, the meaning stays that of earlier versions, which had no envelopes
        yield f"envelope of {stream.name}", stream.envelope
    if stream.table is not None:
        yield f"rows of {stream.name}", "of a table" if stream.table.topic is None else f"of topic {stream.table.topic}"
    if stream.query is not None:
        yield f"rows of {stream.name}", f"results of {stream.query}"


def _condition(query: Query, predicate: Predicate) -> str:
    left = _side("left", query.streams[0].keys[predicate.left_slot])
    right = _side("right", query.streams[-1].keys[predicate.right_slot])
    sign = OPERATORS[predicate.op].sign
    if predicate.op.is_band:
        return f"ABS({left} - {right}) {sign} {predicate.width!r}"
    return f"{left} {sign} {right}"


def _side(side: str, key: KeyColumn) -> str:
    written = _expression(side, key.expression)
    if key.rounding is not None:
        written = f"{key.rounding.value} {written}"
    return f"{written} (to {key.scale} decimals)" if key.scale else written


def _expression(side: str, expression: Expression) -> str:
    if isinstance(expression, Column):
        return f"{side}.{expression.name}"
    if isinstance(expression, Constant):
        return str(expression.value)
    if isinstance(expression, Computed):
        return f"{side}: {expression.sql}"
    return f"({_expression(side, expression.left)} {expression.operator} {_expression(side, expression.right)})"
