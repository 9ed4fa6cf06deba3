"""DuckDB as the engine of expressions: it takes columns, and gives one column for each expression."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.errors import QueryError
from spojoin.expressions.functions import unknown_function
from spojoin.expressions.limits import SECONDS_MAX, guard, watched
from spojoin.expressions.types import duckdb_type
from spojoin.model import ColumnType, TypeName

Columns = Mapping[str, ColumnType]
#: How many expressions' types are remembered: statements repeat expressions, and the simulator does so many times.
TYPES_KEPT = 4_096
ONE_THREAD: Mapping[str, str | bool | int] = {"threads": 1}
DAY_US = 86_400_000_000
TOO_LONG = f"it takes more than {SECONDS_MAX:g} s of processor time"
_DURATION = pa.duration("us")
#: How many characters of an expression an error shows.
SHOWN_MAX = 200
#: Rows that take too long are divided into this many parts, so that few attempts isolate the row at fault.
PARTS_OF_LONG = 16


@dataclass(frozen=True, slots=True)
class ValuelessRow:
    """A row for which an expression has no value: its number, and the engine's message."""

    row: int
    why: str


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An array of n values for each expression, NULL for rows without a value; failures: the rows without a value."""

    values: list[pa.Array]
    failures: list[ValuelessRow]


def quoted(name: str) -> str:
    """A name in the double quotes of SQL, so that it may hold any character."""
    return '"' + name.replace('"', '""') + '"'


_UNKNOWN_FUNCTION = re.compile(r'Function with name "?(\w+)"? does not exist')


def sentence(error: duckdb.Error) -> str:
    """The engine's message, without the kind of error, the candidates and the marked text."""
    if isinstance(error, duckdb.InterruptException):
        return TOO_LONG
    if "Max expression depth" in str(error):
        return "it is nested too deeply: expected fewer terms within each other"
    if (called := _UNKNOWN_FUNCTION.search(str(error))) and (unknown := unknown_function(called[1])):
        return unknown
    first = str(error).split("\n\n")[0].split("\n")[0]
    return first.split(": ", 1)[-1].strip().rstrip(".!")


def type_of(sql: str, columns: Columns) -> str:
    """DuckDB's type of an expression's value. Raises duckdb.Error if it has none.

    The expression is evaluated for a row of NULLs, which finds errors such as a text that isn't a number.
    """
    return _types_over(*_declared(sql, columns))[0]


def arrow_type_of(sql: str, columns: Columns) -> pa.DataType:
    """The Arrow type in which DuckDB gives an expression's value."""
    return _types_over(*_declared(sql, columns))[1]


def _declared(sql: str, columns: Columns) -> tuple[str, str]:
    """An expression, and the declarations of the columns that it names."""
    apart = _apart(columns)
    named = {apart.get(name, name): kind for name, kind in columns.items()}
    declared = ", ".join(f"{quoted(name)} {duckdb_type(kind)}" for name, kind in named.items()) or "nothing INTEGER"
    return _renamed(sql, apart), declared


def _apart(names: Iterable[str]) -> dict[str, str]:
    """New names for columns that differ from an earlier one only in case, since DuckDB takes these for the same."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            found[name] = f"{name} {len(found)}, apart"
        seen.add(name.lower())
    return found


def _renamed(sql: str, names: Mapping[str, str]) -> str:
    """An expression with its quoted column names replaced."""
    for name, other in names.items():
        sql = sql.replace(quoted(name), quoted(other))
    return sql


@functools.lru_cache(maxsize=TYPES_KEPT)
def _types_over(sql: str, declared: str) -> tuple[str, pa.DataType]:
    connection = _checker()
    guard(connection, sql)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE checked ({declared})")
    connection.execute("INSERT INTO checked DEFAULT VALUES")
    with watched(connection, sql):
        relation = connection.sql(f"SELECT {sql} AS value FROM checked")
        found = str(relation.types[0])
        arrow = relation.to_arrow_table().schema.field(0).type
    return found, arrow


def bind(sql: str, tables: Mapping[str, Columns]) -> None:
    """Parse and bind a statement over empty tables. Raises duckdb.Error if that fails."""
    connection = _checker()
    for name, columns in tables.items():
        declared = ", ".join(f"{quoted(column)} {duckdb_type(kind)}" for column, kind in columns.items())
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {quoted(name)} ({declared})")
    try:
        connection.sql(sql)
    finally:
        for name in tables:
            connection.execute(f"DROP TABLE {quoted(name)}")


def constant(sql: str) -> object:
    """The value of an expression without columns. Raises duckdb.Error if it has none."""
    connection = _checker()
    guard(connection, sql)
    with watched(connection, sql):
        return connection.sql(f"SELECT {sql}").fetchall()[0][0]


def interval(sql: str) -> tuple[int, int] | None:
    """The months and the microseconds of an INTERVAL without columns, with days of 24 hours; None for other values."""
    try:
        relation = _checker().sql(f"SELECT ({sql}) AS value")
        if str(relation.types[0]) != "INTERVAL":
            return None
        value = relation.to_arrow_table().column(0)[0].as_py()
    except duckdb.Error:
        return None
    return None if value is None else (value.months, value.days * DAY_US + value.nanoseconds // 1_000)


class DuckdbEvaluator:
    """Evaluates expressions over the same columns; threads take turns.

    sqls: expressions in DuckDB's dialect; columns: the types of the columns that they name
    """

    def __init__(self, sqls: Sequence[str], columns: Columns, *, is_timed: bool = True) -> None:
        self._columns = dict(columns)
        self._watched = watched if is_timed else _unwatched  # P10.4
        self._apart = _apart(columns)
        named = {self._apart.get(name, name): kind for name, kind in columns.items()}
        asked = [f"{_renamed(sql, self._apart)} AS e{k}" for k, sql in enumerate(sqls)]
        self._query = f"SELECT {', '.join(asked)} FROM {_source(named)}"
        self._alone = [f"SELECT {each} FROM {_source(named)}" for each in asked]
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._lock = threading.Lock()

    def __call__(self, columns: pa.Table) -> Evaluated:
        """The values of all expressions for n rows of the columns, which have `value_type`s."""
        if not columns.num_rows:
            return Evaluated([pa.nulls(0)] * len(self._alone), [])
        whole = self._tried(columns, self._query)
        if not isinstance(whole, str):
            return Evaluated(whole, [])
        if len(self._alone) == 1:
            return self._in_parts(columns, self._query, whole)
        each = [self._by_itself(columns, query) for query in self._alone]
        why = {failure.row: failure.why for found in reversed(each) for failure in found.failures}
        return Evaluated([found.values[0] for found in each], [ValuelessRow(row, why[row]) for row in sorted(why)])

    def _by_itself(self, columns: pa.Table, query: str) -> Evaluated:
        """The values of one expression."""
        whole = self._tried(columns, query)
        return self._in_parts(columns, query, whole) if isinstance(whole, str) else Evaluated(whole, [])

    def _tried(self, columns: pa.Table, query: str) -> list[pa.Array] | str:
        """The values, or the engine's message if a row has no value, or if all rows take too much time or space."""
        with self._lock:
            connection = self._open()
            connection.register("given", _of_microseconds(self._told_apart(columns)))
            try:
                with self._watched(connection, query), heeding_signals():
                    found = connection.sql(query).to_arrow_table()
                return [_whole(column) for column in found.columns]
            except duckdb.Error as error:
                return sentence(error)
            except pa.ArrowInvalid:  # an array holds at most 2 GiB of text
                return "its value is too long"
            finally:
                connection.unregister("given")

    def _in_parts(self, columns: pa.Table, query: str, why: str) -> Evaluated:
        """Divide the rows of one expression until each row that fails is alone."""
        count = columns.num_rows
        if count == 1:
            return Evaluated([pa.nulls(1)], [ValuelessRow(0, why)])
        size = -(-count // (2 if why != TOO_LONG else PARTS_OF_LONG))
        parts = [self._by_itself(columns.slice(start, size), query) for start in range(0, count, size)]
        failures = [
            ValuelessRow(each.row + size * number, each.why)
            for number, part in enumerate(parts)
            for each in part.failures
        ]
        return Evaluated([_joined([part.values[0] for part in parts])], failures)

    def _told_apart(self, columns: pa.Table) -> pa.Table:
        if not self._apart:
            return columns
        return columns.rename_columns([self._apart.get(name, name) for name in columns.column_names])

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._connection = connected()
            guard(self._connection, self._query)
        return self._connection


@contextmanager
def _unwatched(_connection: duckdb.DuckDBPyConnection, _sql: str) -> Iterator[None]:
    yield


def _of_microseconds(columns: pa.Table) -> pa.Table:
    """The columns with durations as microseconds: DuckDB multiplies those of other units even if they are NULL."""
    for number, field in enumerate(columns.schema):
        if pa.types.is_duration(field.type) and field.type != _DURATION:
            columns = columns.set_column(number, field.name, columns.column(number).cast(_DURATION))
    return columns


@contextmanager
def heeding_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt if a signal ends a query in the block; DuckDB would turn it into another error."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from error


def connected(config: Mapping[str, str | bool | int] = ONE_THREAD) -> duckdb.DuckDBPyConnection:
    """A connection in UTC without access to files or networks; by default it uses one thread."""
    connection = duckdb.connect(config=dict(config))
    for setting in ("TimeZone='UTC'", "enable_external_access=false", "lock_configuration=true"):
        connection.execute(f"SET {setting}")
    return connection


@functools.cache
def _checker() -> duckdb.DuckDBPyConnection:
    return connected()


def _source(columns: Columns) -> str:
    """The SELECT that gives the columns; UUIDs arrive as text."""
    uuids = [name for name, kind in columns.items() if kind.name is TypeName.UUID]
    if not uuids:
        return "given"
    casts = ", ".join(f"CAST({quoted(name)} AS UUID) AS {quoted(name)}" for name in uuids)
    return f"(SELECT * REPLACE ({casts}) FROM given)"


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined: Any = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    """The parts of one column joined; some may be NULLs without a type."""
    kind = next((part.type for part in parts if not pa.types.is_null(part.type)), pa.null())
    return pa.concat_arrays([part.cast(kind) for part in parts])


def spread(values: pa.Array, kept: NDArray[np.int64], count: int) -> pa.Array:
    """Spread the values of some rows over `count` rows, NULL elsewhere; kept: int64, the rows that have a value."""
    places = np.full(count, -1, np.int64)
    places[kept] = np.arange(len(kept))
    return values.take(pa.array(places, mask=places < 0))


def refused(what: str, error: duckdb.Error, line: int | None) -> QueryError:
    """The engine's error as an error in a statement."""
    shown = what if len(what) <= SHOWN_MAX else f"{what[: SHOWN_MAX // 2]} ... {what[-SHOWN_MAX // 2 :]}"
    return QueryError(f"{shown}: {sentence(error)}", line)
