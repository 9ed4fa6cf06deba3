"""The checker keeps a left row's nearest partner or all that are as near, and asks WHERE behind that."""

from __future__ import annotations

from typing import Any

from loadgen.check.partners import answers
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
