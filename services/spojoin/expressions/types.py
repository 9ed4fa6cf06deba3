"""Column types as Arrow's and DuckDB's: what expressions see and what they give."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from spojoin.model import ColumnType, Selected, TypeName

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
    "TIMESTAMP WITH TIME ZONE": TypeName.TIMESTAMP,
    "VARCHAR": TypeName.STRING,
    "BOOLEAN": TypeName.BOOLEAN,
    "UUID": TypeName.UUID,
    "BLOB": TypeName.BINARY,
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_WIDE = {"UBIGINT": 20, "HUGEINT": 38, "UHUGEINT": 38}


def value_type(kind: ColumnType) -> pa.DataType:
    """The Arrow type in which an expression sees a column, and results give it; times have no zone and are UTC."""
    if isinstance(kind.nested, pa.DataType):
        return kind.nested
    return pa.decimal128(kind.precision, kind.scale) if kind.name is TypeName.DECIMAL else _ARROW[kind.name]


def select_schema(select: Sequence[Selected]) -> pa.Schema:
    """The names and types of the columns that a select list gives."""
    return pa.schema([(each.name, value_type(each.expression.type)) for each in select])


def column_type(duckdb_type: str) -> ColumnType | None:
    """The type of an expression's value as a column's; None where no column has it, such as a list."""
    if match := _DECIMAL.fullmatch(duckdb_type):
        return ColumnType(TypeName.DECIMAL, int(match[1]), int(match[2]))
    if duckdb_type in _WIDE:
        return ColumnType(TypeName.DECIMAL, _WIDE[duckdb_type])
    name = _DUCKDB.get(duckdb_type)
    return None if name is None else ColumnType(name)


def duckdb_type(kind: ColumnType) -> str:
    """The name of a column's type in DuckDB."""
    match kind.name:
        case TypeName.DECIMAL:
            return f"DECIMAL({kind.precision},{kind.scale})"
        case TypeName.MAP:
            return "MAP(VARCHAR, VARCHAR)"
        case TypeName.NESTED:
            return "STRUCT(passed BOOLEAN)"  # no expression names it: see `Scope.column`
        case _:
            return next(name for name, known in _DUCKDB.items() if known is kind.name)
