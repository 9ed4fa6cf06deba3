"""The checker keeps a left row's nearest partner or all that are as near, and asks WHERE behind that."""

from __future__ import annotations

import math
from typing import Any

import pytest

from loadgen.check.partners import answers
from spojoin.aggregates.functions import FUNCTIONS
from spojoin.query.load import parse_query

TEXT = """
name: q
streams: {{a: {{schema: {{id: long, x: long}}}}}}
tables: {{b: {{file: b.csv, schema: {{id: long, x: long}}}}}}
sql: SELECT l.id AS n, r.id AS p FROM a AS l {joined}
"""


def row(n: int, p: int | None, by: int | None, *, holds: bool | None = None) -> dict[str, Any]:
    """A left row alone, where p is None, or its pair with the partner p, which the order has at `by`."""
    return {"n": n, "p": p, "is_pair": p is not None, "is_end": False, "o0": by, "o1": p, "w": holds}


def found(joined: str, *rows: dict[str, Any]) -> list[tuple[int, int | None]]:
    return [(each["n"], each["p"]) for each in answers(parse_query(TEXT.format(joined=joined)), rows)]


def test_where_is_asked_of_the_nearest_row_or_of_none() -> None:
    rows = [row(1, None, None, holds=True), row(1, 7, 3, holds=True), row(1, 8, 5, holds=False)]
    rows += [
        row(2, None, None, holds=False),
        row(3, None, None, holds=True),
        row(4, None, None),
        row(4, 9, 1, holds=True),
    ]
    where = "b AS r ON l.x >= r.x WHERE r.id IS NULL OR r.id > 8"
    assert found(f"ASOF JOIN {where}", *rows) == [(4, 9)]
    assert found(f"ASOF LEFT JOIN {where}", *rows) == [(3, None), (4, 9)]


def test_all_ties_of_the_first_are_kept() -> None:
    rows = [
        row(1, None, None),
        row(1, 7, 3),
        row(1, 8, 2),
        row(1, 9, 2),
        row(2, None, None),
        row(2, 9, None),
        row(2, 5, None),
    ]
    ranked = "JOIN b AS r ON l.x >= r.x QUALIFY RANK() OVER (PARTITION BY l ORDER BY r.x) = 1"
    assert found(ranked, *rows) == [(1, 8), (1, 9), (2, 5), (2, 9)]


#: Of partners whose values are NULL, 3, 1, 1 and -2, in this order.
AGGREGATES = {
    "COUNT(r.x)": 4,
    "COUNT(DISTINCT r.x)": 3,
    "SUM(r.x)": 3,
    "AVG(r.x)": 0.75,
    "MIN(r.x)": -2,
    "MAX(r.x)": 3,
    "ARG_MIN(r.x, r.x)": -2,
    "ARG_MAX(r.x, r.x)": 3,
    "QUANTILE_DISC(r.x, 0.5)": 1,
    "STDDEV(r.x)": math.sqrt(12.75 / 3),
    "STDDEV_POP(r.x)": math.sqrt(12.75 / 4),
    "VARIANCE(r.x)": 12.75 / 3,
    "VAR_POP(r.x)": 12.75 / 4,
    "FIRST(r.x)": None,
    "LAST(r.x)": -2,
    "ANY_VALUE(r.x)": 3,
    "LIST(r.x)": [None, 3, 1, 1, -2],
    "LIST(DISTINCT r.x ORDER BY r.x DESC)": [3, 1, -2, None],
    "STRING_AGG(r.x)": "3,1,1,-2",
}


@pytest.mark.parametrize(("aggregate", "value"), AGGREGATES.items())
def test_an_aggregate_is_of_all_partners(aggregate: str, value: object) -> None:
    joined = f"JOIN b AS r ON l.x >= r.x GROUP BY l HAVING {aggregate} IS NOT NULL"
    values = [None, "3", "1", "1", "-2"] if aggregate == "STRING_AGG(r.x)" else [None, 3, 1, 1, -2]
    pairs = [row(1, p, None) | {"p0_0": x, "p0_1": x, "q0_0": x} for p, x in enumerate(values)]
    query = parse_query(TEXT.replace(", r.id AS p", "").format(joined=joined))
    assert [each["a0"] for each in answers(query, [row(1, None, None), *pairs])] == [value]


def test_no_aggregate_of_the_product_is_missing() -> None:
    others = {"COUNT_IF", "BOOL_OR", "BOOL_AND", "MEDIAN"}  # which are others by another name
    assert {each.partition("(")[0] for each in AGGREGATES} >= {one.sql for one in FUNCTIONS if one.sql} - others
