"""SQL around joins, over finite tables, is answered as DuckDB answers it."""

from __future__ import annotations

import random

import pytest

import spojoin
from tests.support.by_duckdb import by_duckdb
from tests.support.long import first_of
from tests.support.outer_statements import as_duckdb, statement, tables


@pytest.mark.parametrize("seed", first_of(40, range(120)))
def test_drawn_sql_around_a_drawn_join_is_answered_as_by_duckdb(seed: int) -> None:
    draw = random.Random(seed)
    given, sql = tables(draw), statement(draw)
    used = {name: table for name, table in given.items() if f" {name} " in sql.replace("(", " ").replace(")", " ")}
    found = [tuple(row.values()) for row in spojoin.sql(sql, **used).to_arrow().to_pylist()]
    assert found == by_duckdb(as_duckdb(sql), **given), sql


#: Statements that the drawn ones don't reach; over the drawn tables, in an order that is certain.
KEPT = [
    "SELECT COUNT(*) AS c FROM a AS l JOIN TABLE(b) AS r ON l.x > r.y AND l.x < r.y",
    "SELECT l.sym AS s, COUNT(*) AS c, 2 * COUNT(*) AS m FROM a AS l JOIN TABLE(b) AS r ON l.x > r.y GROUP BY l.sym "
    "HAVING COUNT(*) > 1 ORDER BY COUNT(*) DESC, s",
    "SELECT l.sym AS s, COUNT(*) AS c FROM a AS l LEFT JOIN TABLE(b) AS r ON l.x > r.y GROUP BY ALL ORDER BY ALL",
    "SELECT l.id AS i, r.id AS j FROM a AS l LEFT JOIN TABLE(b) AS r ON l.x > r.y WHERE r.id IS NULL OR r.w > 1 "
    "ORDER BY ALL",
    "SELECT l.id AS i, r.id AS j FROM a AS l LEFT JOIN TABLE(b) AS r ON l.x > r.y WHERE r.id IS NULL AND l.x > 2 "
    "ORDER BY ALL",
    "SELECT l.id AS i, r.id AS j FROM a AS l FULL JOIN b AS r ON l.x > r.y WHERE l.z > 1 OR r.w > 1 ORDER BY ALL",
    "SELECT l.* EXCLUDE (z, id), r.y + 1 AS v FROM a AS l JOIN TABLE(b) AS r ON l.x > r.y ORDER BY ALL",
    "SELECT l.* REPLACE (l.x + 1 AS x), r.w FROM a AS l JOIN TABLE(b) AS r ON l.x > r.y ORDER BY ALL",
    "SELECT name, COUNT(*) AS c, SUM(y) AS s FROM a AS l JOIN TABLE(b) AS r ON l.x > r.y JOIN n ON n.sym = l.sym "
    "WHERE name <> 'beta' GROUP BY name ORDER BY name",
    "SELECT l.id AS i, x + y AS v FROM a AS l JOIN TABLE(b) AS r ON l.x > r.y ORDER BY v + i DESC, i, r.id LIMIT 5",
    "SELECT DISTINCT ON (l.sym) l.sym AS s, r.y AS y FROM a AS l JOIN TABLE(b) AS r ON l.x > r.y "
    "ORDER BY l.sym, r.y DESC",
    "SELECT l.id AS i, MAX(r.y) AS m FROM a AS l JOIN TABLE(b) AS r ON l.x > r.y "
    "WHERE l.id IN (SELECT id FROM b WHERE y > 2) AND l.x BETWEEN 1 AND 6 GROUP BY l.id ORDER BY ALL",
    "WITH big AS (SELECT * FROM a WHERE x > 2), pairs AS (SELECT l.id AS i, r.id AS j FROM big AS l JOIN big AS r "
    "ON l.x < r.x) SELECT i, COUNT(*) AS c FROM pairs GROUP BY i UNION ALL SELECT j, -COUNT(*) FROM pairs GROUP BY j "
    "ORDER BY ALL",
    "SELECT k.v AS v, COUNT(*) AS c FROM (VALUES (1), (3), (5)) AS k(v) JOIN TABLE(b) AS r ON k.v >= r.y GROUP BY k.v "
    "ORDER BY ALL",
    "SELECT s, SUM(c) OVER (ORDER BY s NULLS LAST) AS t FROM (SELECT l.sym AS s, COUNT(*) AS c FROM a AS l "
    "JOIN TABLE(b) AS r ON l.x <> r.y AND l.z < r.w GROUP BY l.sym) ORDER BY ALL",
    "SELECT l.sym AS s, MIN(l.x - r.y) FILTER (WHERE r.w > 1) AS m FROM a AS l JOIN TABLE(b) AS r ON l.x >= r.y "
    "GROUP BY GROUPING SETS ((l.sym), ()) ORDER BY ALL",
]


@pytest.mark.parametrize("sql", KEPT)
@pytest.mark.parametrize("seed", first_of(1, [1, 2, 3]))
@pytest.mark.filterwarnings("ignore:neither WINDOW")
def test_further_sql_around_a_join_is_answered_as_by_duckdb(sql: str, seed: int) -> None:
    given = tables(random.Random(seed))
    words = sql.replace("(", " ").replace(")", " ").split()
    used = {name: table for name, table in given.items() if name in words}
    found = [tuple(row.values()) for row in spojoin.sql(sql, **used).to_arrow().to_pylist()]
    assert found == by_duckdb(as_duckdb(sql), **given), sql
