"""Whole numbers, decimals and doubles compare by value, where DuckDB rounds: against a plain loop over fractions."""

from random import Random

import pyarrow as pa
import pytest

import spojoin
from tests.support.plain_statements import draw_exact

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("i", pa.int32()),
        ("d", pa.float64()),
        ("m", pa.decimal128(18, 4)),
        ("f", pa.float32()),
        ("at", pa.timestamp("us")),
    ]
)


@pytest.mark.parametrize("seed", range(200))
def test_numbers_compare_by_value(seed):
    statement = draw_exact(Random(seed))
    tables = {name: pa.Table.from_pylist(list(rows), SCHEMA) for name, rows in zip("ab", statement.rows, strict=False)}
    time = {"time": dict.fromkeys(tables, "at")} if len(tables) == 2 else {}
    found = spojoin.sql(statement.sql(), **time, **tables).to_arrow()
    rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    assert rows == statement.answer(), statement.sql()
