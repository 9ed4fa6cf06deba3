"""Rows that ask, and FULL joins: the product against DuckDB over numbered rows."""

from random import Random

import pytest

from tests.support.asked import engine_of, fed, rows_of
from tests.support.asking_statements import draw, draw_bound
from tests.support.full_statements import draw_full
from tests.support.long import first_of


def product(statement, seed):
    """The rows that the embedded engine gives, in pieces, frames and batches of drawn sizes."""
    rng = Random(f"sizes {seed}")
    engine, found = engine_of(statement, rng), []
    for stream in range(len(statement.names)):
        found += fed(engine, stream, [row for of, row in statement.rows if of == stream], rng)
        found += engine.end(stream)
    found += engine.finish()
    return rows_of(found)


@pytest.mark.parametrize("seed", first_of(40, range(120)))
@pytest.mark.parametrize("draw_one", [draw, draw_bound, draw_full])
def test_answers_are_those_of_duckdb(draw_one, seed):
    statement = draw_one(seed)
    assert product(statement, seed) == statement.answer(), statement.sql()
