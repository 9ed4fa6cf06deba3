"""Where the current generation began (rule P12): the place in its order up to which a history should be answered.

Earlier generations answered the rows before that place, this one answers the rows after it. If the same query answers a
history up to that place, its results adjoin the stream's without a gap or a shared row. If a row of the inputs shows
that no such place exists, or a row to come may show it, that is an error.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spojoin.arrays import I64
from spojoin.errors import ConfigurationError
from spojoin.model import Order, Query
from spojoin.protocol.answered import Answered, before
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.generations import Beginning, Generations
from spojoin.query.fingerprint import differences, fingerprint, is_same_order
from spojoin.runtime.backfill import InputHistory, Past, pasts_of, rows_between
from spojoin.runtime.generations import announced_inputs, announced_query, beginning_after, inputs_since
from spojoin.runtime.topics import Topics
from spojoin.wire.records import NEVER, Rows

#: How many records on each side of a place must agree with it in the order column.
LOOK_RECORDS = 1_024
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_REPLACE_AGAIN = "replace the query once more, so that another generation begins at another row"


@dataclass(frozen=True, slots=True)
class GenerationStart:
    """The current generation, and the first value of the order that it answers: a number, or an event time."""

    generation: int
    until: int | dt.datetime


def find_generation_start(
    history: InputHistory, query: Query, found: Generations, input_topics: Mapping[str, str]
) -> GenerationStart:
    """Where the current generation began.

    history: of the inputs of `query`; in arrival order, each row's key is its value in the order column
    found: the content of the topic of generations; input_topics: the topic of a stream, if it isn't `in.<stream>`

    Raises ConfigurationError if it can't be determined exactly; LogUnavailable.
    """
    begun = _beginning(query, found, input_topics)
    by_time = query.order.by is Order.EVENT_TIME
    return GenerationStart(
        begun.generation, _time(history, query, begun) if by_time else _number(history, query, begun)
    )


def _beginning(query: Query, found: Generations, input_topics: Mapping[str, str]) -> Beginning:
    """The beginning of a generation of this query that has taken over from another one."""
    current, takeover, name = found.current, found.takeover, f"query {query.name!r}"
    if current is None:
        raise ConfigurationError(f"{name} isn't served: no generation of it was announced")
    if current.fingerprint != fingerprint(query):
        wanted = found.wanted
        if wanted is not None and wanted.fingerprint == fingerprint(query):
            raise ConfigurationError(f"{name}: generation {wanted.generation} hasn't begun yet; ask again when it has")
        changes = "; ".join(differences(announced_query(current), query)) or "its meaning differs"
        raise ConfigurationError(f"{name} isn't the one that is served, generation {current.generation}: {changes}")
    if takeover is None:
        raise ConfigurationError(
            f"{name} has replaced no other: generation {current.generation} began at its inputs' first rows, with "
            "empty windows; name the row from which on its results count, --until"
        )
    if current.backfill == Backfill.NONE:
        raise ConfigurationError(
            f"{name}: generation {current.generation} began with empty windows (backfill: none), so that its first "
            "results lack partners; name the row from which on its results count, --until"
        )
    announced = found.announced(takeover.from_generation)
    previous = announced_query(announced)
    if query.order.by is Order.EVENT_TIME and not is_same_order(previous, query):
        raise ConfigurationError(
            f"{name}: the generation before {current.generation} had another order, so that the rows that it answered "
            f"end at no event time; {_REPLACE_AGAIN}"
        )
    before = announced_inputs(previous, announced, input_topics)
    streams = inputs_since(previous, Topics.for_query(query, 1, input_topics), before)
    return beginning_after(Beginning(current.generation), takeover, previous, query, streams)


# -- by arrival


def _number(history: InputHistory, query: Query, begun: Beginning) -> int:
    """The order column's value in the first row that the generation answers."""
    pasts = pasts_of(history, begun.cut)
    if len(pasts) != 1:
        raise ConfigurationError(
            f"query {query.name!r} reads {len(pasts)} partitions in the order of arrival, in which no column's value "
            "divides the rows; name the place, --until, or order by event time"
        )
    (past,) = pasts
    end = history.log.bounds(past.source).end
    behind = [_values(rows, ~before(rows.offsets, rows.rows, past.cut)) for rows in _look(history, past, past.cut[0])]
    first = max(past.earliest, past.end - LOOK_RECORDS)
    ahead = [_values(rows, before(rows.offsets, rows.rows, past.cut)) for rows in _look(history, past, first)]
    least = min((int(each.min()) for each in behind if len(each)), default=None)
    most = max((int(each.max()) for each in ahead if len(each)), default=None)
    if least is None and most is None:
        raise ConfigurationError(
            f"{past.source.topic} holds no usable row at offset {past.cut[0]}, where generation {begun.generation} "
            f"began, of {end:,} messages; name the place, --until"
        )
    if least is not None and most is not None and least <= most:
        raise ConfigurationError(
            f"{past.source.topic}: a row before the place where generation {begun.generation} began has number {most}, "
            f"one behind it {least}, so that the order column isn't the order of arrival; name another, --order-by"
        )
    return most + 1 if least is None and most is not None else int(least or 0)


def _look(history: InputHistory, past: Past, first: int) -> Iterator[Rows]:
    """The rows of some records from an offset on."""
    end = min(first + 2 * LOOK_RECORDS, history.log.bounds(past.source).end)
    reader = history.log.reader()
    try:
        yield from rows_between(reader, history.parse, past, max(first, past.earliest), end)
    finally:
        reader.close()


def _values(rows: Rows, among: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> I64:
    """The order column of some rows, which was read as their keys; rows without it have no place in a history."""
    if not pa.types.is_int64(rows.keys.type):
        raise ConfigurationError(
            "where a generation began is told by a column of whole numbers, and this one has others: name one that "
            "has, --order-by, or the place, --until"
        )
    kept = rows.keys.filter(pa.array(among)).drop_null()
    found: I64 = kept.to_numpy(zero_copy_only=False)
    return found


# -- by event time


def _time(history: InputHistory, query: Query, begun: Beginning) -> dt.datetime:
    """The time after the last row that earlier generations answered, if it divides the rows."""
    answered = begun.answered()
    last_us = answered.merged_us if answered.passed else max(begun.highs.values(), default=NEVER)
    if last_us == NEVER:
        raise ConfigurationError(
            f"query {query.name!r}: generation {begun.generation} began before any row had an answer, with empty "
            "windows; name the row from which on its results count, --until"
        )
    for past in pasts_of(history, begun.cut):
        _check_divided(history, query, past, answered, last_us)
    return _moment(last_us + 1)


def _check_divided(history: InputHistory, query: Query, past: Past, answered: Answered, last_us: int) -> None:
    """Raise ConfigurationError if the generation answers, or may answer, a row of a partition up to `last_us`."""
    high = answered.high_of(*past.key)
    reader = history.log.reader()
    try:
        end = history.log.bounds(past.source).end
        for rows in rows_between(reader, history.parse, past, max(past.cut[0], past.earliest), end):
            times = _times(rows)
            seen = np.maximum.accumulate(np.concatenate((np.array([high]), times)))
            highs, lateness_us = seen[:-1], query.order.lateness_us
            is_late = (highs != NEVER) & (times < np.where(highs == NEVER, 0, highs) - lateness_us)
            is_new = ~answered.rows(*past.key, rows.offsets, rows.rows, times) & ~is_late
            if (is_new & (times <= last_us)).any():
                at = rows.offsets[np.flatnonzero(is_new & (times <= last_us))[0]]
                raise ConfigurationError(
                    f"{past.source.topic}, partition {past.source.partition}, offset {at}: this generation answers a "
                    f"row no later than {_moment(last_us).isoformat()}, up to which earlier ones did, so that no time "
                    f"divides their rows; {_REPLACE_AGAIN}"
                )
            high = max(high, int(seen[-1]))
            if high - query.order.lateness_us > last_us:
                return
    finally:
        reader.close()
    raise ConfigurationError(
        f"{past.source.topic}, partition {past.source.partition}: no row has come yet behind which one of "
        f"{_moment(last_us).isoformat()} would be late; ask again when it has, or if none comes, --until "
        f"{_moment(last_us + 1).isoformat()}"
    )


def _times(rows: Rows) -> I64:
    if rows.times_us is None:
        raise ValueError("event-time order needs event times")
    return rows.times_us


def _moment(time_us: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=time_us)
