"""Translates column types to Arrow's and DuckDB's, for the inputs and values of expressions."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import pyarrow as pa

from spojoin.model import UTC, ColumnType, Selected, TypeName

_ARROW = {
    TypeName.INT: pa.int32(),
    TypeName.LONG: pa.int64(),
    TypeName.FLOAT: pa.float32(),
    TypeName.DOUBLE: pa.float64(),
    TypeName.DATE: pa.date32(),
    TypeName.TIMESTAMP: pa.timestamp("us"),
    TypeName.STRING: pa.string(),
    TypeName.BOOLEAN: pa.bool_(),
    TypeName.UUID: pa.string(),
    TypeName.BINARY: pa.binary(),
    TypeName.MAP: pa.map_(pa.string(), pa.string()),
}

_DUCKDB = {
    "INTEGER": TypeName.INT,
    "SMALLINT": TypeName.INT,
    "TINYINT": TypeName.INT,
    "UTINYINT": TypeName.INT,
    "USMALLINT": TypeName.INT,
    "BIGINT": TypeName.LONG,
    "UINTEGER": TypeName.LONG,
    "FLOAT": TypeName.FLOAT,
    "DOUBLE": TypeName.DOUBLE,
    "DATE": TypeName.DATE,
    "TIMESTAMP": TypeName.TIMESTAMP,
    "TIMESTAMP_S": TypeName.TIMESTAMP,
    "TIMESTAMP_MS": TypeName.TIMESTAMP,
    "VARCHAR": TypeName.STRING,
    "JSON": TypeName.STRING,
    "BOOLEAN": TypeName.BOOLEAN,
    "UUID": TypeName.UUID,
    "BLOB": TypeName.BINARY,
}
#: DuckDB's types of Arrow types without a declared type.
_OTHERS = {
    "TIMESTAMP WITH TIME ZONE": ColumnType(TypeName.TIMESTAMP, zone=UTC),
    "TIMESTAMP_NS": ColumnType(TypeName.TIMESTAMP, arrow=pa.timestamp("ns")),
    "TIMESTAMPTZ_NS": ColumnType(TypeName.TIMESTAMP, zone=UTC, arrow=pa.timestamp("ns", UTC)),
    "TIME": ColumnType(TypeName.CARRIED, arrow=pa.time64("us")),
    "TIME_NS": ColumnType(TypeName.CARRIED, arrow=pa.time64("ns")),
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_WIDE = {"UBIGINT": 20, "HUGEINT": 38, "UHUGEINT": 38}


def value_type(kind: ColumnType) -> pa.DataType:
    """The Arrow type in which an expression sees a column, and results give it."""
    if isinstance(kind.arrow, pa.DataType):
        return kind.arrow
    if kind.zone is not None:
        return pa.timestamp("us", kind.zone)
    return pa.decimal128(kind.precision, kind.scale) if kind.name is TypeName.DECIMAL else _ARROW[kind.name]


def select_schema(select: Sequence[Selected]) -> pa.Schema:
    """The names and types of the columns that a select list gives."""
    return pa.schema([(each.name, value_type(each.expression.type)) for each in select])


def column_type(duckdb_type: str) -> ColumnType | None:
    """The column type of an expression's value; None if no column can have it, such as a list."""
    if match := _DECIMAL.fullmatch(duckdb_type):
        return ColumnType(TypeName.DECIMAL, int(match[1]), int(match[2]))
    if duckdb_type in _WIDE:
        return ColumnType(TypeName.DECIMAL, _WIDE[duckdb_type])
    name = _DUCKDB.get(duckdb_type)
    return _OTHERS.get(duckdb_type) if name is None else ColumnType(name)


def is_evaluated(kind: ColumnType) -> bool:
    """Whether expressions may name a column of the type, because DuckDB keeps every digit of its values."""
    return kind.arrow is None or (kind.arrow != pa.duration("ns") and _duckdb_type_of(kind.arrow) is not None)


@functools.lru_cache
def _duckdb_type_of(arrow: pa.DataType) -> str | None:
    """DuckDB's type for an Arrow type's values; None if it has none."""
    import duckdb  # noqa: PLC0415  (few columns have such types)

    try:
        with duckdb.connect() as connection:
            return str(connection.from_arrow(pa.table({"value": pa.array([], arrow)})).types[0])
    except (duckdb.Error, pa.ArrowException):
        return None


def duckdb_type(kind: ColumnType) -> str:
    """The name of a column's type in DuckDB."""
    if kind.arrow is not None:
        return _duckdb_type_of(kind.arrow) or "STRUCT(carried BOOLEAN)"  # no expression names it: see `is_evaluated`
    if kind.zone is not None:
        return "TIMESTAMP WITH TIME ZONE"
    match kind.name:
        case TypeName.DECIMAL:
            return f"DECIMAL({kind.precision},{kind.scale})"
        case TypeName.MAP:
            return "MAP(VARCHAR, VARCHAR)"
        case _:
            return next(name for name, known in _DUCKDB.items() if known is kind.name)
