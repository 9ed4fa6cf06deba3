"""Expressions that Arrow evaluates give exactly what DuckDB gives: values, NULLs and types."""

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.expressions.engine import DuckdbEvaluator
from spojoin.expressions.evaluator import arrow_function, evaluator
from spojoin.expressions.types import value_type
from spojoin.model import ColumnType, TypeName

COLUMNS = {
    "i": ColumnType(TypeName.INT),
    "j": ColumnType(TypeName.INT),
    "g": ColumnType(TypeName.LONG),
    "h": ColumnType(TypeName.LONG),
    "d": ColumnType(TypeName.DOUBLE),
    "e": ColumnType(TypeName.DOUBLE),
    "p": ColumnType(TypeName.DECIMAL, 10, 2),
    "q": ColumnType(TypeName.DECIMAL, 10, 2),
    "s": ColumnType(TypeName.STRING),
    "t": ColumnType(TypeName.STRING),
    "b": ColumnType(TypeName.BOOLEAN),
    "day": ColumnType(TypeName.DATE),
    "ts": ColumnType(TypeName.TIMESTAMP),
    "0.x y": ColumnType(TypeName.INT),
}
SMALL = st.sampled_from([0, 1, -1, 2, 5, 2**31 - 1, -(2**31)])
LONGS = st.sampled_from([0, 1, -1, 2, 5, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)])
DOUBLES = st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.25, 0.1, 5e-324, 1e308, math.inf, -math.inf])
DECIMALS = st.sampled_from([Decimal("0.00"), Decimal("1.50"), Decimal("-99999999.99")])
TEXTS = st.sampled_from(["", "a", "A", "ab", "a\0", "Ä", "ß", "İ", "ǅ", "z", "\U0001f600", "\uffff", "x'y"])
DAYS = st.sampled_from([dt.date(2013, 1, 1), dt.date(1969, 12, 31), dt.date(2013, 1, 2)])
TIMES = st.sampled_from([dt.datetime(2013, 1, 1), dt.datetime(2013, 1, 1, 5, 0, 0, 1), dt.datetime(1969, 12, 31)])
VALUES = {"i": SMALL, "j": SMALL, "0.x y": SMALL, "g": LONGS, "h": LONGS, "d": DOUBLES, "e": DOUBLES, "p": DECIMALS}
VALUES |= {"q": DECIMALS, "s": TEXTS, "t": TEXTS, "b": st.booleans(), "day": DAYS, "ts": TIMES}

TERMS = {
    "integer": ["i", "j", "g", "h", '"0.x y"', "0", "1", "-1", "2147483648", "-2147483649", "(i + j)", "(g * h)", "5"],
    "double": ["d", "e", "0", "1.5", "-2.25", "0.1", "123456789.25", "(d - e)", "(d * e)"],
    "decimal": ["p", "q"],
    "text": ["s", "t", "'a'", "''", "'Ä'", "'x''y'", "lower(s)", "upper(t)", "lower(upper(s))"],
    "date": ["day", "'2013-01-01'", "DATE '2013-01-02'", "CAST('1969-12-31' AS DATE)"],
    "timestamp": ["ts", "'2013-01-01 00:00:00'", "TIMESTAMP '2013-01-01'", "'1969-12-31'"],
}
OPERATORS = ["=", "<>", "<", "<=", ">", ">="]


@st.composite
def comparisons(draw) -> str:
    terms = TERMS[draw(st.sampled_from(sorted(TERMS)))]
    first, second = draw(st.sampled_from(terms)), draw(st.sampled_from(terms))
    return f"{first} {draw(st.sampled_from(OPERATORS))} {second}"


LEAVES = st.one_of(
    comparisons(),
    st.sampled_from(["b", "i IS NULL", "s IS NOT NULL", "b IS NULL", "p IS NULL", "(i < j) IS NULL"]),
    st.sampled_from(
        ["i IN (1, 2)", "g NOT IN (0, 5, 2147483648)", "s IN ('a', 'Ä')", "lower(s) IN ('a')", "i IN (-1)"]
    ),
    st.sampled_from(["i BETWEEN 0 AND 5", "g BETWEEN i AND h", "s NOT BETWEEN 'A' AND t", "d BETWEEN e AND 1.5"]),
    st.sampled_from(["day BETWEEN '2013-01-01' AND DATE '2013-01-02'", "i IN (3000000000, 2)"]),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)
ROWS = st.lists(st.tuples(*(st.one_of(st.none(), VALUES[name]) for name in COLUMNS)), min_size=1, max_size=8)


def table_of(rows) -> pa.Table:
    arrays = [pa.array([row[k] for row in rows], value_type(kind)) for k, kind in enumerate(COLUMNS.values())]
    return pa.table(dict(zip(COLUMNS, arrays, strict=True)))


def agree(sqls: list[str], table: pa.Table) -> None:
    plain, engine = evaluator(sqls, COLUMNS)(table), DuckdbEvaluator(sqls, COLUMNS)(table)
    assert plain.failures == engine.failures
    for sql, found, expected in zip(sqls, plain.values, engine.values, strict=True):
        assert repr(found.to_pylist()) == repr(expected.to_pylist()), sql
        assert found.type == expected.type or pa.types.is_null(expected.type), sql


@given(CONDITIONS, ROWS)
def test_conditions_are_duckdbs(sql: str, rows):
    agree([sql], table_of(rows))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["s", "lower(s)", "upper(t)", "i", "i + j", "g - h", "d * e", "d + e", "p", "ts"]), min_size=1
    ),
    ROWS,
)
def test_values_are_duckdbs(sqls: list[str], rows):
    agree(sqls, table_of(rows))


@pytest.mark.parametrize("sql", ["d = e", "d < e", "d >= 1.5", "d > e", "NOT d <= e", "d BETWEEN e AND 1.5"])
def test_nan_equals_itself_and_is_the_greatest(sql: str):
    values = [math.nan, 1.0, math.inf, None, -math.nan]
    pairs = [(d, e) for d in values for e in values]
    rows = [[d if name == "d" else e if name == "e" else None for name in COLUMNS] for d, e in pairs]
    table = table_of(rows)
    assert arrow_function(sql, COLUMNS) is not None
    agree([sql], table)
    found = evaluator(["d = e"], COLUMNS)(table).values[0].to_pylist()
    assert found[pairs.index((values[0], values[0]))] is True


@pytest.mark.parametrize(
    "sql",
    [
        "i < 5",
        "(i < 5) AND (s = 'a' OR NOT b)",
        "lower(s)",
        '"0.x y" IN (1, 2)',
        "g BETWEEN i AND 10",
        "d > 1.5",
        "day >= '2013-01-01'",
        "ts < TIMESTAMP '2013-01-01 05:00:00'",
        "p < q",
        "i + j < g",
    ],
)
def test_the_plain_subset_is_translated(sql: str):
    assert arrow_function(sql, COLUMNS) is not None


@pytest.mark.parametrize(
    "sql",
    [
        "g < d",
        "i < 1.5",
        "d < 0.1234567890123456789",
        "p < 1.5",
        "s < 5",
        "day < ts",
        "s LIKE 'a%'",
        "i / j = 1",
        "i IN (1, NULL)",
        "day = '2013-1-1'",
        "day = '2013-02-30'",
        "ts = '2013-01-01T00:00:00Z'",
        "i = NULL",
        "b = TRUE",
        "i + 1 < 5",
        "i = '5'",
        "CASE WHEN b THEN i END",
        "CAST(s AS INTEGER)",
        "i < nothing",
        "length(s)",
    ],
)
def test_everything_else_is_duckdbs(sql: str):
    assert arrow_function(sql, COLUMNS) is None


def test_a_failing_row_is_found_beside_plain_expressions():
    rows = [[text if name == "s" else 1 if name == "i" else None for name in COLUMNS] for text in ("5", "x", "7")]
    found = evaluator(["i = 1", "CAST(s AS INTEGER)", "lower(s)"], COLUMNS)(table_of(rows))
    assert [failure.row for failure in found.failures] == [1]
    assert "Could not convert string 'x'" in found.failures[0].why
    assert [values.to_pylist() for values in found.values] == [[True] * 3, [5, None, 7], ["5", "x", "7"]]


def test_an_overflow_is_a_failure_of_its_row():
    rows = [[2**31 - 1 if name == "i" else j if name == "j" else None for name in COLUMNS] for j in (0, 1)]
    found = evaluator(["i + j < g"], COLUMNS)(table_of(rows))
    assert [failure.row for failure in found.failures] == [1]
    assert "Overflow" in found.failures[0].why or "out of range" in found.failures[0].why


def test_columns_in_pieces_and_no_rows():
    table = pa.table({"i": pa.chunked_array([[1, 2], [3]], pa.int32())})
    columns = {"i": COLUMNS["i"]}
    assert evaluator(["i > 1"], columns)(table).values[0].to_pylist() == [False, True, True]
    assert evaluator(["i > 1"], columns)(table.slice(0, 0)).values[0].to_pylist() == []
