"""SQL around joins, over finite tables, is answered as DuckDB answers it."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import spojoin
from tests.support.outer_statements import as_duckdb, statement, tables


def by_duckdb(sql: str, given: dict[str, pa.Table]) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        for name, table in given.items():
            connection.register(name, table)
        return connection.execute(as_duckdb(sql)).fetchall()


@pytest.mark.parametrize("seed", range(120))
def test_drawn_sql_around_a_drawn_join_is_answered_as_by_duckdb(seed: int) -> None:
    draw = random.Random(seed)
    given, sql = tables(draw), statement(draw)
    used = {name: table for name, table in given.items() if f" {name} " in sql.replace("(", " ").replace(")", " ")}
    found = [tuple(row.values()) for row in spojoin.sql(sql, **used).to_arrow().to_pylist()]
    assert found == by_duckdb(sql, given), sql
