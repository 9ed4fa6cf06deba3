"""The oracle of statements: DuckDB over rows that are given, in one engine, which takes long to start."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import pyarrow as pa


@cache
def engine() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect(config={"threads": 1, "enable_external_access": False})
    found.execute("SET GLOBAL TimeZone = 'UTC'")
    return found


def asked(sql: str, **tables: pa.Table) -> duckdb.DuckDBPyConnection:
    """DuckDB's answer over the tables, which no other connection sees."""
    connection = engine().cursor()
    for name, table in tables.items():
        connection.register(name, table)
    return connection.execute(sql)


def by_duckdb(sql: str, **tables: pa.Table) -> list[tuple[Any, ...]]:
    return asked(sql, **tables).fetchall()
