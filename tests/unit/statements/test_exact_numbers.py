"""Whole numbers, decimals and doubles compare by value, where DuckDB rounds: against a plain loop over fractions."""

from random import Random

import pyarrow as pa
import pytest

import spojoin
from tests.support.long import first_of
from tests.support.plain_statements import PlainStatement, draw_exact, draw_wide

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
WIDE = pa.schema([*SCHEMA, ("u", pa.uint64()), ("w", pa.decimal128(38, 10)), ("z", pa.decimal128(38, 20))])


def check(statement: PlainStatement, schema: pa.Schema) -> None:
    tables = {name: pa.Table.from_pylist(list(rows), schema) for name, rows in zip("ab", statement.rows, strict=False)}
    time = {"time": dict.fromkeys(tables, "at")} if len(tables) == 2 else {}
    found = spojoin.sql(statement.sql(), **time, **tables).to_arrow()
    rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    assert rows == statement.answer(), statement.sql()


@pytest.mark.parametrize("seed", first_of(50, range(200)))
def test_numbers_compare_by_value(seed):
    check(draw_exact(Random(seed)), SCHEMA)


@pytest.mark.parametrize("seed", first_of(30, range(100)))
def test_numbers_of_many_digits_compare_by_value(seed):
    check(draw_wide(Random(seed)), WIDE)
