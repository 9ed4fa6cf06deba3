"""Rows that ask: the product against DuckDB, and DuckDB against a plain nested loop."""

from dataclasses import replace
from random import Random

import pytest

from spojoin.embedded.engine import Engine
from spojoin.embedded.statements import StatementOptions, statement_of_streams
from spojoin.query.column_types import parse_type
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from tests.support.asking_statements import COLUMNS, draw, draw_bound, table_of
from tests.support.full_statements import draw_full

SEEDS = range(120)


def product(statement, seed):
    """The rows that the embedded engine gives, in pieces, frames and batches of drawn sizes."""
    rng = Random(f"sizes {seed}")
    schema = {name: parse_type(kind, name, 1) for name, kind in COLUMNS.items()}
    names = ["a"] if statement.is_self else ["a", "b"]
    timed = statement.is_time or not statement.is_self
    options = StatementOptions(times=dict.fromkeys(names, "at") if timed else {})
    query = statement_of_streams(statement.sql(), dict.fromkeys(names, schema), options)
    sizes = RouterConfig(
        router_id="test",
        credits_frames=UNLIMITED,
        frame_tuples=rng.choice((1, 4, 16, 64)),
        batch_tuples=rng.choice((1, 4, 8, 32)),
        workers=rng.choice((1, 2, 3)),
    )
    engine = Engine(query, sizes)
    found = []
    for stream in range(len(names)):
        rows = [row for of, row in statement.rows if of == stream]
        at = 0
        while at < len(rows):
            size = rng.choice((1, 5, 30))
            found += engine.feed(stream, table_of(rows[at : at + size]))
            at += size
        found += engine.end(stream)
    found += engine.finish()
    return [tuple(map(plain, row.values())) for batch in found for row in batch.to_pylist()]


def plain(value):
    """A decimal of a whole number as that number."""
    return int(value) if type(value).__name__ == "Decimal" else value


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_are_those_of_duckdb(seed):
    statement = draw(seed)
    expected = [tuple(map(plain, row)) for row in statement.answer()]
    assert product(statement, seed) == expected, statement.sql()


@pytest.mark.parametrize("seed", range(200, 320))
def test_between_bounds_of_time_answers_are_those_of_sql(seed):
    statement = draw_bound(seed)
    expected = [tuple(map(plain, row)) for row in statement.answer()]
    assert product(statement, seed) == expected, statement.sql()


@pytest.mark.parametrize("seed", range(1_000, 1_075))
def test_duckdb_finds_the_partners_of_the_nested_loop(seed):
    statement = replace(draw(seed), kind="", items="l.seq AS n, r.seq AS p", clauses="")
    assert statement.answer() == [(n, p) for n, partners in statement.partners() for p in partners], statement.sql()


@pytest.mark.parametrize("seed", SEEDS)
def test_full_joins_are_those_of_duckdb(seed):
    statement = draw_full(seed)
    expected = [tuple(map(plain, row)) for row in statement.answer()]
    assert product(statement, seed) == expected, statement.sql()


@pytest.mark.parametrize("seed", range(1_000, 1_100))
def test_duckdb_joins_fully_as_the_nested_loop_does(seed):
    statement = draw_full(seed)
    assert [row[:2] for row in statement.answer()] == statement.looped(), statement.sql()
