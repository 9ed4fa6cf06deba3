"""Aggregates that are made of others, or of all partners at once, against DuckDB."""

import math
from random import Random

import duckdb
import pyarrow as pa
import pytest

import spojoin
from spojoin.errors import QueryError

#: As written here, and as DuckDB says the same: it has no order of rows but one that is written.
AGGREGATES = {
    "COUNT(DISTINCT r.x)": None,
    "COUNT(DISTINCT r.d)": None,
    "COUNT(DISTINCT r.s) FILTER (WHERE r.x > 0)": None,
    "SUM(DISTINCT r.x)": None,
    "BOOL_OR(r.x > 2)": None,
    "BOOL_AND(r.x > l.x)": None,
    "BOOL_OR(r.b) FILTER (WHERE r.x > 0)": None,
    "COUNT_IF(r.x > 1)": None,
    "COUNT_IF(r.x > l.x OR r.b) FILTER (WHERE r.b)": None,
    "FIRST(r.x)": "FIRST(r.x ORDER BY r.id)",
    "FIRST(r.s) FILTER (WHERE r.x > 1)": "FIRST(r.s ORDER BY r.id) FILTER (WHERE r.x > 1)",
    "FIRST(r.x + l.x)": "FIRST(r.x + l.x ORDER BY r.id)",
    "LAST(r.s)": "LAST(r.s ORDER BY r.id)",
    "LAST(r.s ORDER BY r.d NULLS FIRST, r.id)": None,
    "ANY_VALUE(r.x)": "ANY_VALUE(r.x ORDER BY r.id)",
    "ANY_VALUE(r.x ORDER BY r.d DESC, r.id)": None,
    "LIST(r.s)": "LIST(r.s ORDER BY r.id)",
    "LIST(r.x ORDER BY r.d DESC NULLS FIRST, r.id) FILTER (WHERE r.b)": None,
    "LIST(DISTINCT r.x ORDER BY r.x)": None,
    "ARRAY_AGG(r.s ORDER BY r.d DESC NULLS LAST, r.id)": None,
    "STRING_AGG(r.s, '-')": "STRING_AGG(r.s, '-' ORDER BY r.id)",
    "STRING_AGG(r.x, ', ' ORDER BY r.id DESC)": None,
    "STRING_AGG(DISTINCT r.s, '' ORDER BY r.s)": None,
    "MAX(r.x) - COUNT(DISTINCT r.x)": None,
    "len(LIST(r.x)) + COUNT(*)": None,
    "list_sort(LIST(r.s))[1]": None,
}
SPREADS = [f"{name}({of})" for name in ("STDDEV", "STDDEV_SAMP", "STDDEV_POP", "VARIANCE", "VAR_SAMP", "VAR_POP")
           for of in ("r.x", "r.d", "r.x + l.x")]  # fmt: skip


def table(rng, rows):
    def column(kind, *values):
        return pa.array([rng.choice([None, *values]) for _ in range(rows)], kind)

    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "k": pa.array([rng.randint(0, 6) for _ in range(rows)], pa.int64()),
            "s": column(pa.string(), "a", "b", "ü", ""),
            "x": column(pa.int64(), 1, 2, 3),
            "d": column(pa.float64(), 1e9 + 0.5, 1e9, 0.0, -0.0, 3.25),
            "b": column(pa.bool_(), True, False),
        }
    )


def answers(statement, written, a, b):
    found = spojoin.sql(statement.format(written, "TABLE(b)") + " GROUP BY l", a=a, b=b).to_arrow()
    return dict(zip(*found.to_pydict().values(), strict=True))


def by_duckdb(statement, written, a, b):
    with duckdb.connect() as connection:
        connection.register("a", a)
        connection.register("b", b)
        return dict(connection.sql(statement.format(written, "b") + " GROUP BY l.id, l.x").fetchall())


def drawn(seed):
    rng = Random(f"more aggregates {seed}")
    join = rng.choice(["JOIN", "LEFT JOIN"])
    statement = f"SELECT l.id, {{}} AS v FROM a AS l {join} {{}} AS r ON l.k > r.k AND l.id <> r.id"
    return statement, table(rng, 8), table(rng, 12)


@pytest.mark.parametrize(("written", "alike"), AGGREGATES.items())
@pytest.mark.parametrize("seed", range(3))
def test_an_aggregate_gives_what_duckdb_gives(written, alike, seed):
    statement, a, b = drawn(f"{written} {seed}")
    assert answers(statement, written, a, b) == by_duckdb(statement, alike or written, a, b)


@pytest.mark.parametrize("written", SPREADS)
def test_a_spread_is_duckdbs_but_for_its_rounding(written):
    statement, a, b = drawn(written)
    found, expected = answers(statement, written, a, b), by_duckdb(statement, written, a, b)
    assert found.keys() == expected.keys()
    for number, value in found.items():
        wanted = expected[number]
        assert (value is None) == (wanted is None)
        assert value is None or math.isclose(value, wanted, rel_tol=1e-6, abs_tol=1e-9)


def test_a_spread_far_from_zero_is_exact_where_adding_up_loses_it():
    a = pa.table({"id": [1], "x": [1.0]})
    b = pa.table({"x": [1e15 + step for step in (0.0, 1.0, 2.0, 3.0)]})
    found = spojoin.sql("SELECT VAR_POP(r.x) AS v FROM a AS l JOIN TABLE(b) AS r ON l.x < r.x GROUP BY l", a=a, b=b)
    assert found.to_arrow().to_pylist() == [{"v": 1.25}]


def test_some_are_found_in_the_index_without_a_list_of_partners():
    schema = {"id": "long", "k": "long", "x": "long", "b": "boolean"}
    for one, is_listed in {
        "BOOL_OR(r.b)": False,
        "COUNT_IF(r.x > 1)": False,
        "FIRST(r.x)": False,
        "LIST(r.x)": True,
    }.items():
        statement = f"SELECT l.id, {one} AS v FROM a AS l JOIN TABLE(b) AS r ON l.k > r.k GROUP BY l"
        with spojoin.Join(statement, {"a": schema, "b": schema}) as join:
            assert join.query.lists_pairs == is_listed, one


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("MODE(r.x)", "expected functions of single values|isn't supported"),
        ("MAX(r.x, 2)", "expected 1 argument, without a further one"),
        ("COUNT(DISTINCT r.x, r.s)", "expected 1 argument"),
        ("STDDEV(r.s)", "is of a string: expected one of int"),
    ],
)
def test_what_an_aggregate_cant_say_is_refused(written, said):
    statement, a, b = drawn(0)
    with pytest.raises(QueryError, match=said):
        answers(statement, written, a, b)
