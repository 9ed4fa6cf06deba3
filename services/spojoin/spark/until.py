"""`until`: the place in a history's order before which rows are answered; later rows are only partners."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.types import (
    DataType,
    DateType,
    IntegralType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from spojoin.columns.extract import Extracted
from spojoin.columns.numbers import read_times_us
from spojoin.columns.refusals import Refusals
from spojoin.errors import ConfigurationError
from spojoin.model import Stream
from spojoin.spark.history_query import FrameQuery

#: `until` as users give it: a value of the first order column; times may be ISO text.
UntilValue = int | float | str | dt.date | dt.datetime | None

_counted: Any = pc


@dataclass(frozen=True, slots=True)
class Until:
    """An event time in microseconds since 1970, UTC, if rows are ordered by it; otherwise an order column's value."""

    time_us: int | None = None
    value: int | float | str | dt.date | dt.datetime | None = None

    def rows_before(self, key: pa.Array) -> int | None:
        """How many of a block's rows come before, by their order column (n,); None if event times decide."""
        if self.time_us is not None:
            return None
        kind = key.type if pa.types.is_timestamp(key.type) else None
        found = _counted.less(key, pa.scalar(self.value, kind))
        return int(np.count_nonzero(found.to_numpy(zero_copy_only=False)))

    def before(self, rows: Extracted, ahead: int | None) -> NDArray[np.bool_]:
        """Which of a block's kept rows, bool (n,), come before; ahead: the result of `rows_before` for the block."""
        if ahead is not None:
            return rows.kept < ahead
        if rows.times_us is None or self.time_us is None:
            raise ValueError("event-time order needs event times")
        found: NDArray[np.bool_] = rows.times_us < self.time_us
        return found


def until_of(asked: FrameQuery, column: str, value: UntilValue) -> Until | None:
    """Read `until` for a history whose first input is ordered by `column`.

    Raises ConfigurationError if that column has no such value.
    """
    if value is None:
        return None
    stream = asked.query.inputs[0]
    kind = asked.frames[0].schema[column].dataType
    if asked.query.needs_time:
        return Until(time_us=_time_us(stream, column, kind, value))
    return Until(value=_value(f"{stream.name}.{column}", kind, value))


def _time_us(stream: Stream, column: str, kind: DataType, value: object) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if is_number != isinstance(kind, IntegralType) and not isinstance(value, str | dt.date):
        raise _wrong(value, "a time, such as 2024-02-29T12:00:00Z", f"{stream.name}.{column}", kind)
    refusals = Refusals(1)
    times = read_times_us("until", pa.array([value]), refusals, stream.schema.get(column) if is_number else None)
    if refusals.by_row:
        raise _wrong(value, "a time, such as 2024-02-29T12:00:00Z", f"{stream.name}.{column}", kind)
    return int(times[0])


def _value(name: str, kind: DataType, value: object) -> int | float | str | dt.date | dt.datetime:
    if isinstance(kind, IntegralType):
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise _wrong(value, "a whole number", name, kind)
    if isinstance(kind, NumericType) and isinstance(value, int | float):
        return value
    if isinstance(kind, StringType) and isinstance(value, str):
        return value
    if isinstance(kind, TimestampType | TimestampNTZType | DateType) and isinstance(value, str | dt.date):
        return _moment(name, kind, value)
    raise _wrong(value, "a value of the order column", name, kind)


def _moment(name: str, kind: DataType, value: str | dt.date) -> dt.date:
    try:
        found = value if isinstance(value, dt.date) else dt.datetime.fromisoformat(value)
    except ValueError as error:
        raise _wrong(value, "a time, such as 2024-02-29T12:00:00Z", name, kind) from error
    if not isinstance(found, dt.datetime):
        found = dt.datetime.combine(found, dt.time.min)
    utc = found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)
    if isinstance(kind, DateType):
        if utc.time() != dt.time.min:
            raise _wrong(value, "a date", name, kind)
        return utc.date()
    return utc if isinstance(kind, TimestampType) else utc.replace(tzinfo=None)


def _wrong(value: object, expected: str, name: str, kind: DataType) -> ConfigurationError:
    return ConfigurationError(
        f"until is {value!r}: expected {expected}, as the rows are ordered by {name}, of type {kind.simpleString()}"
    )
