"""What names a left row where aggregates and the best partners are asked of it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spojoin.embedded.engine import Engine
from spojoin.errors import QueryError
from spojoin.model import Query
from spojoin.query.load import parse_query
from spojoin.roles.router.config import RouterConfig
from spojoin.search_plan import SearchPlan

TEXT = """
name: q
streams:
  t: {{schema: {{id: long, "a key": long, price: double}}, key: {key}}}
sql: |
  SELECT l.price, {items} FROM t AS l JOIN t AS r ON l.price > r.price
  {clause} WINDOW AS (SLIDE INTERVAL '1' ON '100') EMIT ON ARRIVAL
"""


def parsed(clause: str, items: str = "COUNT(*) AS n, l.id", key: str = "id") -> Query:
    return parse_query(TEXT.format(key=key, items=items, clause=clause))


@pytest.mark.parametrize("clause", ["GROUP BY l", "GROUP BY L", "GROUP BY l.seq", "GROUP BY l.id", 'GROUP BY "l"."ID"'])
def test_a_left_row_has_an_alias_a_number_and_a_key(clause: str) -> None:
    if "ID" in clause:
        with pytest.raises(QueryError, match="unknown column of stream t 'ID'"):
            parsed(clause)
    else:
        assert parsed(clause).answers.grouped == parsed("GROUP BY l").answers.grouped


def test_a_key_may_have_any_name() -> None:
    assert parsed('GROUP BY l."a key"', key='"a key"').answers.grouped is not None


@pytest.mark.parametrize("clause", ["GROUP BY l.price", "GROUP BY r.id", "GROUP BY l.id, l.price", "GROUP BY id"])
def test_nothing_else_is_a_group(clause: str) -> None:
    with pytest.raises(QueryError, match="isn't supported: expected GROUP BY l"):
        parsed(clause)


def test_the_best_partners_are_of_a_key_as_well() -> None:
    clause = "QUALIFY ROW_NUMBER() OVER (PARTITION BY l.id ORDER BY r.price) <= 2"
    assert (
        parsed(clause, "r.id AS other").answers.best
        == parsed(clause.replace("l.id", "l"), "r.id AS other").answers.best
    )


def test_rows_of_one_key_are_groups_of_their_own() -> None:
    engine = Engine(parsed("GROUP BY l.id"), RouterConfig(router_id="x"))
    rows = pa.RecordBatch.from_pydict({"id": [1, 1, 1], "a key": [1, 2, 3], "price": [5.0, 6.0, 7.0]})
    found = [row for batch in [*engine.feed(0, rows), *engine.finish()] for row in batch.to_pylist()]
    assert found == [{"price": 6.0, "n": 1, "id": 1}, {"price": 7.0, "n": 2, "id": 1}]


@pytest.mark.parametrize("items", ["COUNT(*)", "COUNT(r.price)", "COUNT(r.seq)", "COUNT(r.price) + COUNT(*)"])
def test_partners_are_only_counted_where_none_lacks_a_value(items: str) -> None:
    assert SearchPlan(parsed("GROUP BY l", f"{items} AS n")).only_counts


@pytest.mark.parametrize(
    "items",
    ["COUNT(r.id)", "COUNT(l.price)", "COUNT(r.price + 1)", "COUNT(r.price) FILTER (WHERE r.id > 1)", "MAX(r.price)"],
)
def test_partners_are_listed_where_their_columns_decide(items: str) -> None:
    assert not SearchPlan(parsed("GROUP BY l", f"{items} AS n")).only_counts


@pytest.mark.parametrize(("written", "meant"), [("AVGE(r.price)", "AVG"), ("stdev(r.price)", "STDDEV")])
def test_a_misspelled_aggregate_gets_a_suggestion(written: str, meant: str) -> None:
    with pytest.raises(QueryError, match=f"no function is called {written[:-9].upper()}; did you mean {meant}\\?"):
        parsed("GROUP BY l", f"{written} AS n")
