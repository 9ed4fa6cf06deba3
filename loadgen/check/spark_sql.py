"""A statement's expressions and types in Spark's SQL. Spark evaluates them here, and DuckDB in the services."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import sqlglot
from sqlglot import exp

from spojoin.model import ColumnType, TypeName

_TYPES: dict[TypeName, tuple[str, pa.DataType]] = {
    TypeName.INT: ("int", pa.int32()),
    TypeName.LONG: ("bigint", pa.int64()),
    TypeName.FLOAT: ("float", pa.float32()),
    TypeName.DOUBLE: ("double", pa.float64()),
    TypeName.DATE: ("date", pa.date32()),
    TypeName.TIMESTAMP: ("timestamp_ntz", pa.timestamp("us")),
    TypeName.STRING: ("string", pa.string()),
    TypeName.BOOLEAN: ("boolean", pa.bool_()),
    TypeName.UUID: ("string", pa.string()),
    TypeName.BINARY: ("binary", pa.binary()),
}


def spark_sql(sql: str, names: Mapping[str, str]) -> str:
    """Translate an expression from DuckDB's dialect to Spark's; `names` renames columns."""
    tree = sqlglot.parse_one(sql, read="duckdb")

    def renamed(node: exp.Expression) -> exp.Expression:
        return exp.column(names[node.name], quoted=True) if isinstance(node, exp.Column) else node

    return tree.transform(renamed).sql(dialect="spark")


def spark_type(kind: ColumnType) -> str:
    """The name of a type. Raises ValueError for a type that the checker doesn't read."""
    if kind.name is TypeName.DECIMAL:
        return f"decimal({kind.precision},{kind.scale})"
    return _known(kind)[0]


def arrow_type(kind: ColumnType) -> pa.DataType:
    """The type in which results have a column. Raises ValueError for a type that the checker doesn't read."""
    return pa.decimal128(kind.precision, kind.scale) if kind.name is TypeName.DECIMAL else _known(kind)[1]


def _known(kind: ColumnType) -> tuple[str, pa.DataType]:
    if kind.name not in _TYPES:
        raise ValueError(f"the checker doesn't read columns of type {kind}")
    return _TYPES[kind.name]
