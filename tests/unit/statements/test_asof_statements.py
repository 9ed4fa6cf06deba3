"""ASOF joins, however they are written, are answered as DuckDB answers what they mean."""

from __future__ import annotations

import pytest

import spojoin
from tests.support.asof_statements import AsofStatement, draw
from tests.support.long import first_of

SEEDS = first_of(75, range(300))


def found(drawn: AsofStatement) -> list[tuple[object, ...]]:
    table = spojoin.sql(drawn.sql, a=drawn.lefts, b=drawn.rights).to_arrow()
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_nearest_row_is_the_one_that_the_words_mean(seed: int) -> None:
    drawn = draw(seed)
    assert found(drawn) == drawn.answer(), drawn.sql


def test_an_inequality_alone_is_what_duckdb_takes_it_for() -> None:
    plain = [drawn for drawn in map(draw, range(2_000)) if drawn.plain is not None]
    assert len(plain) > 20
    for drawn in plain:
        by_id = dict(enumerate(drawn.rights["x"].to_pylist()))
        nearest = [(n, None if p is None else by_id[p]) for n, p in found(drawn)]
        assert nearest == drawn.answer_of_asof(), drawn.sql
