"""A join after its end, the rows that it refuses, and what can't be pushed."""

import asyncio
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import spojoin
from spojoin.embedded import batches
from spojoin.errors import BadData, ConfigurationError

QUERY = """
name: q
streams:
  s: {schema: {a: int, at: timestamp}, key: k}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a AND l.at < r.at WINDOW AS (SLIDE INTERVAL '1' ON '100')
"""
BOTH = """
name: both
streams:
  s: {schema: {a: int}, time: t}
  u: {schema: {a: int}, time: t}
sql: SELECT * FROM s AS l JOIN u AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '100')
order: event_time
"""
ROWS = {"a": ["1", "1e99", "x", "4"], "at": [0, 1, 2, 1_357_016_400], "k": ["p", "q", "r", "t"], "more": [0, 0, 0, 0]}


def test_figures_and_refused_rows_outlive_the_with_block():
    with spojoin.Join(QUERY) as join:
        join.push({"a": [1, 2, 2**40], "at": [0, 1, 2], "k": [1, 2, 3]})
        join.flush()
        before = (join.tuples, join.matches, join.rejected)
    assert (join.tuples, join.matches, join.rejected) == before == (2, 1, {"overflow": 1})
    assert [(r.position, r.reason) for r in join.take_rejects()] == [(2, "overflow")]
    assert join.take_rejects() == []


def test_closing_again_changes_nothing():
    join = spojoin.Join(QUERY)
    join.push({"a": [1], "at": [0], "k": [1]})
    join.flush()
    join.close()
    join.close()
    with join:
        pass
    assert join.tuples == 1
    for call in (lambda: join.push({"a": [1]}), join.flush):
        with pytest.raises(ConfigurationError, match="'q' is closed and takes no rows: make a new one"):
            call()


def test_lost_results_are_reported_and_taken_ones_are_not(recwarn):
    with pytest.warns(UserWarning, match="closed before 2 rows have answered.*call flush"), spojoin.Join(QUERY) as join:
        join.push({"a": [1, 2], "at": [0, 1], "k": [1, 2]})
    recwarn.clear()
    with spojoin.Join(QUERY) as join:
        join.push({"a": [1, 2**40], "at": [0, 1], "k": [1, 2]})
        join.flush()
    with pytest.raises(KeyError):
        _breaks_off()
    assert not [warning for warning in recwarn if "call flush" in str(warning.message)]


def _breaks_off():
    with spojoin.Join(QUERY) as join:
        join.push({"a": [1], "at": [0], "k": [1]})
        raise KeyError


def test_a_refused_row_comes_back_with_its_values():
    join = spojoin.Join(QUERY, max_rejects=0.9)
    join.push(ROWS)
    join.flush()
    found = [(r.position, r.stream, r.reason, r.row) for r in join.take_rejects()]
    assert found == [
        (1, "s", "overflow", {"a": "1e99", "at": 1, "k": "q"}),
        (2, "s", "type", {"a": "x", "at": 2, "k": "r"}),
        (3, "s", "unit", {"a": "4", "at": 1_357_016_400, "k": "t"}),
    ]


@pytest.mark.parametrize("size", [1, 3, 64])
def test_values_match_the_position_in_every_form_of_rows(size):
    a = np.where(np.arange(300) % 7 == 3, np.nan, np.arange(300))
    join = spojoin.Join(BOTH)
    for begin in range(0, 300, size):
        for stream in ("s", "u"):
            join.push({"a": a[begin : begin + size], "t": np.arange(300)[begin : begin + size]}, stream)
    join.flush()
    found = join.take_rejects()
    assert sorted((r.stream, r.position) for r in found) == [(s, i) for s in "su" for i in range(3, 300, 7)]
    assert all(r.row["t"] == r.position for r in found)


def test_late_rows_come_back_as_well():
    join = spojoin.Join(BOTH)
    join.push({"a": [1, 2, 3], "t": [5_000, 6_000, 1_000]}, "s")
    join.push({"a": [1], "t": [9_000]}, "u")
    join.flush()
    assert [(r.reason, r.row) for r in join.take_rejects()] == [("late", {"a": 3, "t": 1_000})]


def test_old_values_are_released(monkeypatch):
    monkeypatch.setattr(batches, "KEPT_ROWS", 4)
    kept = batches.RecentRows()
    for begin in range(0, 12, 2):
        kept.keep(pa.record_batch({"x": [begin, begin + 1]}))
    assert kept.values_at([0, 7, 8, 11]) == {8: {"x": 8}, 11: {"x": 11}}
    assert kept.values_at([]) == {}


def test_nanoseconds_come_back_as_text():
    kept = batches.RecentRows()
    kept.keep(pa.record_batch({"x": pa.array([1_357_016_400_000_000_001], pa.timestamp("ns"))}))
    assert kept.values_at([0]) == {0: {"x": "2013-01-01 05:00:00.000000001"}}


@dataclass
class SimpleRow:
    a: int


TABLE = pa.table({"a": [1], "at": [0], "k": [1]})
REFUSED = [
    (3, "rows must be an Arrow batch or table, a data frame.*found an int"),
    (None, "found None"),
    ("trips.csv", "rows is a str: push what it holds"),
    (Path("trips.csv"), "push what it holds"),
    ({1, 2}, "found a set"),
    (np.zeros((2, 2)), "found a numpy.ndarray"),
    (pd.Series([1]), "found a pandas.Series"),
    (pl.from_arrow(TABLE).lazy(), r"polars.LazyFrame: it is a plan without rows yet: push its collect\(\)"),
    ([TABLE, pl.from_arrow(TABLE).lazy()], r"rows\[1\] is a polars.LazyFrame"),
    ({"a": 1, "at": 0, "k": 1}, "its 'a' is an int, and expected is a list or an array for each column"),
    ([{"a": 1, "at": 0, "k": 1}, (2, 0, 2)], "a row of rows is a tuple: expected a dict"),
    ([{"a": 1, "at": 0, "k": 1}, {"a": "x", "at": 0, "k": 1}], "column 'a' has values of the types int, str"),
    ([[1, 2]], r"rows\[0\] is a list: of rows without names make a data frame"),
    ([SimpleRow(1)], r"rows\[0\] is a .*SimpleRow: of data classes give dicts"),
    ({0: [1]}, "its key 0 is no name of a column"),
    ({"a": [1, 2], "at": [0], "k": [1]}, "unlike numbers of values: 'a' has 2, 'at' has 1"),
    ({"a": {1}, "at": [0], "k": [1]}, "its 'a' is a set, and expected is a list or an array"),
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), "found a pandas.DataFrame: Duplicate column names"),
    (pd.DataFrame({"a": [1, "x"]}), r"values of the types int, str: make them text, as by frame\['a'\].astype"),
    (pd.DataFrame({"a": pd.arrays.SparseArray([1])}), r"'a' is sparse: .*\['a'\].sparse.to_dense\(\)"),
    (pd.DataFrame({"a": [2**70, 1]}), r"beyond 64 bits: .* frame\['a'\].map\(decimal.Decimal"),
    (pl.DataFrame({"a": pl.Series([object()], dtype=pl.Object)}), "column 'a' is Object, which Arrow doesn't have"),
    (pl.DataFrame({"a": pl.Series([1], dtype=pl.Int128)}), r"'a' is Int128.*cast\(pl.Decimal\(38, 0\)\)"),
]


@pytest.mark.parametrize(("rows", "said"), REFUSED, ids=lambda value: type(value).__name__)
def test_invalid_rows_are_refused_with_a_sentence(rows, said):
    join = spojoin.Join(QUERY)
    with pytest.raises(BadData, match=said):
        join.push(rows)
    assert join.push(TABLE).num_rows + join.flush().num_rows == 1


def test_columns_of_every_piece_are_checked():
    join = spojoin.Join(QUERY)
    with pytest.raises(ConfigurationError, match="no column 'k'; they have a, at"):
        join.push([TABLE, TABLE.select(["a", "at"])])
    with pytest.raises(ConfigurationError, match="the column 'a' more than once"):
        join.push(pa.table([[1], [2], [0], [1]], names=["a", "a", "at", "k"]))
    with pytest.raises(ConfigurationError, match="no column 'tiem'"):
        spojoin.Join(QUERY.replace("key: k", "key: k, time: tiem")).push(TABLE)


def test_a_generator_that_fails_loses_nothing():
    join = spojoin.Join(QUERY)
    with pytest.raises(BadData, match=r"rows\[1\]"):
        join.push(piece for piece in (TABLE, 3))
    assert join.flush().num_rows == 1


@pytest.mark.parametrize(
    ("query", "options", "said"),
    [
        ({}, {}, "query is of type dict: expected the path"),
        (None, {}, "of type NoneType"),
        (QUERY, {"workers": 0}, "workers=0: expected a whole number from 1"),
        (QUERY, {"workers": "2"}, "workers='2'"),
        (QUERY, {"workers": True}, "workers=True"),
        ("no-such.yaml", {}, "query file no-such.yaml can't be read"),
    ],
)
def test_an_invalid_query_is_refused_with_a_sentence(query, options, said):
    with pytest.raises(ConfigurationError, match=said):
        spojoin.Join(query, **options)


def test_keys_of_two_streams_share_a_column_of_counts():
    join = spojoin.Join(BOTH.replace("time: t}", "time: t, key: k}"))
    join.push({"a": [1], "t": [0], "k": ["x"]}, "s")
    join.push({"a": [2], "t": [1], "k": [7]}, "u")
    assert join.flush()["key"].to_pylist() == ["x", "7"]


def test_a_join_warns_once_and_raises_when_too_many_rows_are_refused():
    schemas = {"s": {"a": "int"}}
    statement = "SELECT l.a, r.a AS other FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '9')"
    with spojoin.Join(statement, schemas, max_rejects=2) as join:
        join.push({"a": ["1", "2", "x"]})
        with pytest.warns(UserWarning, match="1 of 3 rows refused: 1 type .*take_rejects") as seen:
            assert join.flush().num_rows == 1
        join.push({"a": ["y", "3"]})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert join.flush().num_rows == 2
        join.push({"a": ["z", "4"]})
        with pytest.raises(BadData, match="more rows were refused than max_rejects=2: 3 of 7 rows refused"):
            join.finish()
        assert join.finish().num_rows == 3
        assert len(join.take_rejects()) == 3
    assert seen[0].filename == __file__


def test_the_results_of_feeds_come_before_the_error():
    async def found():
        async def rows():
            yield {"a": ["1", "x", "y", "2"]}

        statement = "SELECT l.a FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '9')"
        with spojoin.Join(statement, {"s": {"a": "int"}}, max_rejects="10%") as join:
            async for table in join.results(rows()):
                tables.append(table.to_pylist())

    tables = []
    with pytest.raises(BadData, match="max_rejects=10%: 2 of 4 rows refused"):
        asyncio.run(found())
    assert tables == [[{"a": 1}]]
