"""Statements of thousands of terms run, or are refused in one sentence."""

import pyarrow as pa
import pytest

import spojoin
from spojoin.errors import QueryError

ROWS = pa.table({"i": pa.array(range(20), pa.int64()), "x": [float(i) for i in range(20)]})
TERMS = 1_500


def joined(condition, select="l.i"):
    statement = f"SELECT {select} FROM t AS l JOIN TABLE(t) AS r ON l.i = r.i{condition}"
    return spojoin.sql(statement, t=ROWS).to_arrow().column(0).to_pylist()


def test_many_conditions_that_and_joins():
    assert joined("".join(f" AND l.i <> {2 * k}" for k in range(TERMS))) == list(range(1, 20, 2))


def test_many_conditions_that_or_joins():
    either = " OR ".join(f"l.i = {2 * k}" for k in range(TERMS))
    assert joined(f" AND ({either})") == list(range(0, 20, 2))


def test_many_residual_conditions():
    either = " OR ".join(f"l.i + r.i = {4 * k}" for k in range(TERMS))
    assert joined(f" AND ({either})") == list(range(0, 20, 2))


def test_many_summands_are_refused_in_one_sentence():
    with pytest.raises(QueryError, match="nested too deeply"):
        joined("", " + ".join(["l.i"] * TERMS) + " AS n")
    with pytest.raises(QueryError, match="nested too deeply"):
        joined(f" AND {' + '.join(['l.x'] * TERMS)} > 5")


def test_a_mistake_among_many_conditions_is_named():
    with pytest.raises(QueryError, match="'a'"):
        joined("".join(f" AND l.i <> {k}" for k in range(200)) + " AND l.i = 'a'")


def test_functions_within_each_other_are_refused_in_one_sentence():
    flights = pa.table({"a": [1, 2]})
    nested = f"SELECT {'abs(' * 2_000}l.a{')' * 2_000} AS x FROM t AS l JOIN t AS r ON l.a < r.a"
    with pytest.raises(QueryError, match="nested too deeply"):
        spojoin.sql(nested, t=flights)
