"""The oracle of statements is checked by a plain nested loop, and by answers counted by hand."""

from random import Random

import pyarrow as pa
import pytest

from tests.support.plain_statements import draw_plain
from tests.support.statement_oracle import StatementOracle

SCHEMA = pa.schema(
    [("n", pa.int64()), ("d", pa.float64()), ("s", pa.string()), ("at", pa.timestamp("us"))],
)


@pytest.mark.parametrize("seed", range(300))
def test_duckdb_over_numbers_is_the_nested_loop(seed):
    statement = draw_plain(Random(seed))
    tables = {name: pa.Table.from_pylist(list(rows), SCHEMA) for name, rows in zip("ab", statement.rows, strict=False)}
    found = StatementOracle(tables, dict.fromkeys(tables, "at")).expected(statement.sql())
    assert repr(found.rows) == repr(statement.answer()), statement.sql()
