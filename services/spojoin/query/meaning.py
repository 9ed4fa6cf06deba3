"""A query's meaning, apart from its spelling: a log can be continued only by a query of the same meaning (rule P12).

Comments, spacing, aliases, the order of options and of streams are not part of it. What only some queries have
(filters, residual conditions, a select list, two streams of one input) is a part of its own, so that the fingerprints
of all others stay. The order of a schema's columns is,
since CSV lines are read by position, and so is the order of conditions, since it is the order of columns in the log.
How a query is searched (`method`) and on how many workers changes no result, and is left out. So is how long event
time waits for an idle input (`idle_timeout`): in which order rows were taken, the log says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from spojoin.model import (
    WHOLE_TABLE,
    Aggregate,
    Arithmetic,
    Column,
    Computed,
    Constant,
    Expression,
    KeyColumn,
    Op,
    Order,
    Predicate,
    Query,
    SortKey,
    Stream,
    Window,
)

#: What differs between two queries, part by part.
Meaning = Mapping[str, str]

_NOTHING = "nothing"
_SIGNS = {Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">=", Op.EQ: "=", Op.NE: "!=", Op.BAND_LT: "<", Op.BAND_LE: "<="}


def meaning(query: Query) -> Meaning:
    """The parts of a query's meaning by name, each as readable text."""
    return dict(_parts(query))


def fingerprint(query: Query) -> int:
    """63 bits, at least 1, that two queries share iff they mean the same."""
    digest = hashlib.blake2b(digest_size=8)
    for name, text in sorted(meaning(query).items()):
        digest.update(f"{name}\0{text}\0".encode())
    return (int.from_bytes(digest.digest(), "little") >> 1) or 1


def differences(old: Query, new: Query) -> list[str]:
    """The differences in meaning between an old and a new query, one phrase a part: "output was count, is pairs"."""
    before, after = meaning(old), meaning(new)
    names = dict.fromkeys((*before, *after))
    return [
        f"{name} was {before.get(name, _NOTHING)}, is {after.get(name, _NOTHING)}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def is_same_order(old: Query, new: Query) -> bool:
    """Whether both put rows into the same event-time order, so that one can continue where the other stopped."""
    return old.order is new.order is Order.EVENT_TIME and _times(old) == _times(new)


def _times(query: Query) -> list[tuple[str, str | None, str]]:
    return [(stream.name, stream.time, str(stream.schema.get(stream.time or ""))) for stream in query.inputs]


def _parts(query: Query) -> Iterator[tuple[str, str]]:
    yield "sides", " JOIN ".join(stream.name for stream in (query.streams[0], query.streams[-1]))
    if query.shares_input:
        yield "streams", "one for each side"
    for stream in query.inputs:
        yield from _of_stream(stream)
    for side, stream in zip(("left", "right"), (query.streams[0], query.streams[-1]), strict=True):
        if stream.filter is not None:
            yield f"filter of the {side} side", stream.filter.condition.sql
    yield "condition", " AND ".join(_condition(query, predicate) for predicate in query.predicates)
    if query.residuals:
        yield "residual conditions", " AND ".join(each.sql for each in query.residuals)
    if query.select:
        yield "columns of results", ", ".join(f"{each.expression.sql} AS {each.name}" for each in query.select)
    yield from _of_answers(query)
    if query.result_key is not None:
        yield "key of results", query.result_key
    if query.is_traced:
        yield "trace", "of the row that answered"
    if query.interval is not None:
        yield "interval", f"{query.interval.lower_us} to {query.interval.upper_us} us"
    yield "window", _window(query.window)
    yield "order", query.order.value
    yield "lateness", f"{query.lateness_us} us"
    yield "output", query.output.value
    yield "limit", _NOTHING if query.limit is None else str(query.limit)
    options = "".join(f" {name}={value}" for name, value in query.layout.options)
    yield "layout", f"{query.layout.name}{options}"


def _of_answers(query: Query) -> Iterator[tuple[str, str]]:
    """What rows ask, where they do."""
    if not query.asks:
        return
    yield "answers", f"{query.join.value} join, at {query.emit.value}"
    if query.grouped is not None:
        yield "aggregates", ", ".join(map(_aggregate, query.grouped.aggregates))
        if query.grouped.having is not None:
            yield "condition on groups", query.grouped.having.sql
    if query.best is not None:
        count = f"{query.best.count}{' and all ties' * query.best.has_ties}"
        yield "best partners", f"{count} by {_order(query.best.order)}"
    if query.where is not None:
        yield "condition on results", query.where.sql


def _aggregate(one: Aggregate) -> str:
    given = ", ".join(argument.sql for argument in one.arguments) or "*"
    share = "" if one.share is None else f", {one.share}"
    chosen = "" if one.filter is None else f" where {one.filter.sql}"
    order = f" order by {_order(one.order)}" if one.order else ""
    distinct, separator = "distinct " * one.is_distinct, f", {one.separator!r}" if one.separator else ""
    return f"{one.function}({distinct}{given}{share}{separator}{order}){chosen}"


def _order(keys: Iterable[SortKey]) -> str:
    return ", ".join(
        f"{key.expression.sql}{' DESC' if key.is_descending else ''}{' NULLS FIRST' if key.nulls_first else ''}"
        for key in keys
    )


def _of_stream(stream: Stream) -> Iterator[tuple[str, str]]:
    for name, kind in stream.schema.items():
        yield f"type of {stream.name}.{name}", str(kind)
    yield f"columns of {stream.name}", ", ".join(stream.schema)
    yield f"time of {stream.name}", stream.time or _NOTHING
    yield f"key of {stream.name}", stream.key or _NOTHING
    if stream.envelope is not None:  # without one the meaning is that of programs that knew none
        yield f"envelope of {stream.name}", stream.envelope
    if stream.table is not None:
        yield f"rows of {stream.name}", "of a table" if stream.table.topic is None else f"of topic {stream.table.topic}"
    if stream.query is not None:
        yield f"rows of {stream.name}", f"results of {stream.query}"


def _condition(query: Query, predicate: Predicate) -> str:
    left = _side("left", query.streams[0].keys[predicate.left_slot])
    right = _side("right", query.streams[-1].keys[predicate.right_slot])
    sign = _SIGNS[predicate.op]
    if predicate.op in (Op.BAND_LT, Op.BAND_LE):
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
    return _arithmetic(side, expression)


def _arithmetic(side: str, one: Arithmetic) -> str:
    return f"({_expression(side, one.left)} {one.operator} {_expression(side, one.right)})"


def _window(window: Window) -> str:
    if window == WHOLE_TABLE:
        return "the whole table"
    unit = "us of event time" if window.is_time else "tuples"
    return f"{window.length} {unit}, sliding by {window.slide}"
