"""Aggregates that are made of others, or of all partners at once, against DuckDB."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from random import Random

import pyarrow as pa
import pytest

import spojoin
from spojoin.aggregates.functions import FUNCTIONS
from spojoin.errors import QueryError
from spojoin.search_plan import SearchPlan
from tests.support.by_duckdb import by_duckdb
from tests.support.long import first_of
from tests.support.source_tree import ROOT

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
    "LIST(DISTINCT r.x - 1 ORDER BY r.x - 1)": None,
    "EPOCH_US(MAX(DISTINCT INTERVAL (r.x) DAY))": None,
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


def answers_of_duckdb(statement, written, a, b):
    return dict(by_duckdb(statement.format(written, "b") + " GROUP BY l.id, l.x", a=a, b=b))


def drawn(seed):
    rng = Random(f"more aggregates {seed}")
    join = rng.choice(["JOIN", "LEFT JOIN"])
    statement = f"SELECT l.id, {{}} AS v FROM a AS l {join} {{}} AS r ON l.k > r.k AND l.id <> r.id"
    return statement, table(rng, 8), table(rng, 12)


@pytest.mark.parametrize(("written", "alike"), AGGREGATES.items())
@pytest.mark.parametrize("seed", first_of(1, range(3)))
def test_an_aggregate_gives_what_duckdb_gives(written, alike, seed):
    statement, a, b = drawn(f"{written} {seed}")
    assert answers(statement, written, a, b) == answers_of_duckdb(statement, alike or written, a, b)


@pytest.mark.parametrize("written", SPREADS)
def test_a_spread_is_duckdbs_but_for_its_rounding(written):
    statement, a, b = drawn(written)
    found, expected = answers(statement, written, a, b), answers_of_duckdb(statement, written, a, b)
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


@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(20, 2), pa.float64()], ids=str)
def test_a_spread_is_that_of_the_values_as_doubles_in_exact_numbers(kind):
    rng = Random(f"exact {kind}")
    numbers = [[rng.randint(-(2**62), 2**62), rng.randint(-9, 9)][n % 2] for n in range(40)] + [None] * 5
    values = [None if n is None else Decimal(n).scaleb(-2) if pa.types.is_decimal(kind) else n for n in numbers]
    a = pa.table({"id": range(45), "k": range(45)})
    b = pa.table({"k": range(45), "x": pa.array(values).cast(kind, safe=False)})
    sql = "SELECT l.id, STDDEV(r.x) AS s, VAR_POP(r.x) AS v FROM a AS l LEFT JOIN TABLE(b) AS r ON l.k < r.k GROUP BY l"
    for row in spojoin.sql(sql, a=a, b=b).to_arrow().to_pylist():
        found = [Fraction(float(each)) for each in b["x"].to_pylist()[row["id"] + 1 :] if each is not None]
        squares = sum((each - sum(found) / len(found)) ** 2 for each in found)
        expected = [
            math.sqrt(squares / (len(found) - 1)) if found[1:] else None,
            squares / len(found) if found else None,
        ]
        for one, other in zip((row["s"], row["v"]), expected, strict=True):
            assert one is other is None or math.isclose(one, other, rel_tol=1e-14), row


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
            assert SearchPlan(join.query).lists_pairs == is_listed, one


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("MODE(r.x)", "expected functions of single values|isn't supported"),
        ("MAX(r.x, 2)", "expected 1 argument, without a further one"),
        ("COUNT(DISTINCT r.x, r.s)", "expected 1 argument"),
        ("STDDEV(r.s)", "aggregates a string: expected int"),
        ("STDDVE(r.s)", "no function is called STDDVE; did you mean STDDEV?"),
    ],
)
def test_what_an_aggregate_cant_say_is_refused(written, said):
    statement, a, b = drawn(0)
    with pytest.raises(QueryError, match=said):
        answers(statement, written, a, b)


def test_the_page_names_every_aggregate():
    page = (ROOT / "services/spojoin/query/README.md").read_text()
    assert [one.sql for one in FUNCTIONS if one.sql and not re.search(rf"`{one.sql}\b", page)] == []
