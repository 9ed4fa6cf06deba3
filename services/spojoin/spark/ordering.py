"""The order of a history's rows, which gives them their numbers: by event time or by a sequence column.

One input is ordered by the named columns, and ties by further columns, up to all that the query reads: rows that are
equal in all of them are interchangeable. Two inputs are merged by event time, and ties are ordered by input first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import (
    DataType,
    DateType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from spojoin.errors import ConfigurationError
from spojoin.model import ColumnType, Query, TimeUnit
from spojoin.spark.gather import INPUT
from spojoin.spark.history_query import FrameQuery, parts_of, sortable
from spojoin.suggest import unknown

#: The column of the ordered rows that holds their event time, if two inputs are merged.
TIME = "time_us"
_US = {TimeUnit.SECONDS: 1_000_000, TimeUnit.MILLISECONDS: 1_000, TimeUnit.MICROSECONDS: 1}

#: `order_by` as users give it: a column or several, for all tables or by the name of each table.
OrderBy = str | Sequence[str] | Mapping[str, str | Sequence[str]] | None


@dataclass(frozen=True, slots=True)
class InputOrder:
    """The order of an input's rows: by the columns `by`, and ties by all columns read, unless it is a sequence."""

    by: tuple[str, ...]
    is_sequence: bool


def input_orders(asked: FrameQuery, order_by: OrderBy) -> list[InputOrder]:
    """The order of each input that isn't a table. Raises ConfigurationError if there is no order or a wrong one."""
    named = _by_stream(asked.query, order_by)
    return [
        _input_order(asked, number, named.get(stream.name))
        for number, stream in enumerate(asked.query.inputs)
        if stream.table is None
    ]


def _by_stream(query: Query, order_by: OrderBy) -> dict[str, tuple[str, ...]]:
    names = [stream.name for stream in query.inputs if stream.table is None]
    if isinstance(order_by, Mapping):
        for name in order_by:
            if name not in names:
                raise ConfigurationError(f"order_by: {unknown('table', name, names)}")
        return {name: _columns(each) for name, each in order_by.items()}
    return {} if order_by is None else dict.fromkeys(names, _columns(order_by))


def _columns(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _input_order(asked: FrameQuery, number: int, by: tuple[str, ...] | None) -> InputOrder:
    stream, schema = asked.query.inputs[number], asked.frames[number].schema
    time = stream.time if asked.query.needs_time else None
    if not by:
        if time is None:
            raise ConfigurationError(
                f"{stream.name} has no order: name the column that numbers its rows, such as "
                f"order_by={_example(asked, number)}"
            )
        by = (time,)
    for name in by:
        if name not in schema.names:
            raise ConfigurationError(f"order_by of {stream.name}: {unknown('column', name, schema.names)}")
        if parts_of(schema[name].dataType):
            raise ConfigurationError(
                f"order_by of {stream.name}: {name} is of type {schema[name].dataType.simpleString()}, by which "
                "no rows are ordered: expected a number, a time or a text"
            )
    if time is not None and by[0] != time:
        raise ConfigurationError(
            f"order_by of {stream.name} is {by[0]!r}, and the query orders by event time, {time!r}: begin with it; "
            "columns behind it decide ties"
        )
    if time is not None and isinstance(schema[time].dataType, StringType):
        raise ConfigurationError(
            f"{stream.name}.{time} is text, which Spark orders letter by letter: cast it to timestamp first"
        )
    return InputOrder(by, time is None and len(by) == 1 and isinstance(schema[by[0]].dataType, IntegralType))


def _example(asked: FrameQuery, number: int) -> str:
    names = asked.frames[number].schema.names
    return repr("seq" if "seq" in names else names[0])


class OrderedRows:
    """The rows of a history's inputs as one DataFrame, with the columns that the query reads.

    With one input, columns are called `0_NAME`. With two, each row has the columns of both, NULL in those of the other
    input, and the columns INPUT and TIME.
    """

    def __init__(self, asked: FrameQuery, orders: Sequence[InputOrder]) -> None:
        self.orders = orders
        self._asked = asked
        self._read = [asked.columns(number) for number in range(len(orders))]

    def columns(self, number: int) -> dict[str, str]:
        """The names here of an input's columns that are read or order it, by their names in the input."""
        names = [*self._read[number], *self.orders[number].by]
        return {name: f"{number}_{name}" for name in dict.fromkeys(names)}

    @property
    def keys(self) -> list[str]:
        """The columns by which rows are ordered, without those for ties."""
        if len(self.orders) > 1:
            return [TIME, INPUT]
        return [self.columns(0)[name] for name in self.orders[0].by]

    def plain(self) -> DataFrame:
        """All rows in the order in which Spark reads them."""
        if len(self.orders) == 1:
            return self._selected(0)
        left, right = (self._marked(number) for number in range(2))
        return left.unionByName(right, allowMissingColumns=True)

    def sorted(self, partitions: int) -> DataFrame:
        """All rows in order, from one partition to the next."""
        rows = self.plain()
        ties = [sortable(functions.col(f"`{name}`"), rows.schema[name].dataType) for name in self._ties()]
        columns: list[str | Column] = [*self.keys, *ties]
        return rows.repartitionByRange(partitions, *columns).sortWithinPartitions(*columns)

    def _ties(self) -> list[str]:
        found = [name for number in range(len(self.orders)) for name in self._ties_of(number)]
        return [name for name in found if name not in self.keys]

    def _ties_of(self, number: int) -> list[str]:
        order, columns = self.orders[number], self.columns(number)
        return [] if order.is_sequence else [*(columns[name] for name in order.by), *columns.values()]

    def _selected(self, number: int) -> DataFrame:
        frame = self._asked.frames[number]
        return frame.select([frame[f"`{name}`"].alias(here) for name, here in self.columns(number).items()])

    def _marked(self, number: int) -> DataFrame:
        stream, rows = self._asked.query.inputs[number], self._selected(number)
        time = stream.time or ""
        kind = self._asked.frames[number].schema[time].dataType
        us = _micros(self.columns(number)[time], kind, stream.schema.get(time))
        return rows.withColumn(TIME, us).withColumn(INPUT, functions.lit(number))


def _micros(name: str, kind: DataType, declared: ColumnType | None) -> Column:
    """An event time in microseconds, as statements read it. Text and the like were refused as an order."""
    column = functions.col(f"`{name}`")
    if isinstance(kind, TimestampType):
        return functions.unix_micros(column)
    if isinstance(kind, TimestampNTZType):  # by its parts: a cast would read it in the session's time zone
        seconds = (
            functions.expr(f"EXTRACT(SECOND FROM `{name}`)")
            + 60 * functions.minute(column)
            + 3_600 * functions.hour(column)
        )
        return _days_us(column.cast("date")) + (seconds * 1_000_000).cast("long")
    if isinstance(kind, DateType):
        return _days_us(column)
    unit = TimeUnit.MILLISECONDS if declared is None or declared.unit is None else declared.unit
    return functions.floor(column / 1_000) if unit is TimeUnit.NANOSECONDS else column.cast("long") * _US[unit]


def _days_us(date: Column) -> Column:
    return functions.unix_date(date).cast("long") * 86_400_000_000
