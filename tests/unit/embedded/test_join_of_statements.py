"""`spojoin.Join` over a statement and the columns of its streams: the rows of a plain loop, however they are pushed."""

import random

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import spojoin
from spojoin.errors import BadData, ConfigurationError
from tests.support.nested_loop import pairs_of_rows

LENGTH, SLIDE = 8, 2
SELF = (
    "SELECT l.k, l.a, r.a AS other, r.seq AS partner FROM s AS l JOIN s AS r ON l.k = r.k AND l.a < r.a "
    f"WHERE l.a <> 2 AND r.a <> 2 WINDOW AS (SLIDE INTERVAL '{SLIDE}' ON '{LENGTH}')"
)
CROSS = (
    "SELECT l.id, r.id AS other FROM orders AS l JOIN quotes AS r ON l.a <= r.a WINDOW AS (SLIDE INTERVAL '1' ON '3')"
)
SCHEMA = {"k": "string", "a": "int"}
SIDE = {"id": "long", "a": "int", "at": "timestamp(us)"}
DRAWN = random.Random(5)
ROWS = [(DRAWN.choice("xyé"), DRAWN.randrange(4)) for _ in range(60)]


def naive():
    """Every pair of SELF in the order of probe, left and right."""
    rows = [row for row in ROWS if row[1] != 2]
    found = pairs_of_rows(rows, lambda left, right: left[0] == right[0] and left[1] < right[1], LENGTH, SLIDE)
    return [
        {"k": rows[left][0], "a": rows[left][1], "other": rows[right][1], "partner": right} for _, left, right in found
    ]


def columns(rows):
    return {"k": [k for k, _ in rows], "a": [a for _, a in rows]}


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        pa.schema([("k", pa.string()), ("a", pa.int32())]),
        pa.table({"k": ["x"], "a": pa.array([1], pa.int32())}),
        pl.DataFrame({"k": ["x"], "a": [1]}, schema={"k": pl.String, "a": pl.Int32}),
        pd.DataFrame({"k": ["x"], "a": [1]}).astype({"a": "int32"}),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 60])
def test_rows_are_those_of_a_loop(schema, size):
    with spojoin.Join(SELF, {"s": schema}) as join:
        found = [join.push(columns(ROWS[at : at + size])) for at in range(0, len(ROWS), size)]
        found.append(join.flush())
    table = pa.concat_tables(found)
    assert table.to_pylist() == naive() != []
    assert [str(kind) for kind in table.schema.types] == ["string", "int32", "int32", "int64"]


def test_names_follow_sql():
    with spojoin.Join(SELF.replace("FROM s ", 'FROM "S" '), {"S": SCHEMA}) as join:
        join.push(columns(ROWS), "S")
        assert join.flush().to_pylist() == naive()


def test_rows_that_no_filter_lets_pass_are_not_missed_at_the_end(recwarn):
    with spojoin.Join(SELF, {"s": SCHEMA}) as join:
        join.push(columns([("x", 2), ("x", 1)]))
        join.flush()
    assert list(recwarn) == []
    with pytest.warns(UserWarning, match="call flush"), spojoin.Join(SELF, {"s": SCHEMA}) as join:
        join.push(columns([("x", 1)]))


def pushed(**options):
    with spojoin.Join(CROSS, {"orders": SIDE, "quotes": SIDE}, **options) as join:
        join.push({"id": [1], "a": [1], "at": [30]}, "orders")
        join.push({"id": [2, 3], "a": [1, 1], "at": [10, 40]}, "quotes")
        join.push({"id": [4], "a": [1], "at": [20]}, "orders")
        return join.flush()["id"].to_pylist(), join.rejected


def test_two_streams_are_in_the_order_of_pushes_or_of_a_time():
    assert pushed() == ([1, 1, 4, 4], {})
    assert pushed(time="at") == ([1, 1], {"late": 1})
    assert pushed(time={"orders": "at", "quotes": "at"}, lateness="1 ms") == ([4, 1, 4, 1], {})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((SELF,), "a statement needs the columns of its streams: add schemas"),
        (("-- all\n/* of\nthem */ " + SELF,), "a statement needs the columns"),
        ((SELF, {}), "line 1, column .*unknown stream 's'"),
        ((SELF, {"t": SCHEMA}), "unknown stream 's': expected t"),
        ((SELF, {"s": SCHEMA, "t": SCHEMA}), "'t' isn't used by the statement"),
        ((SELF, {"s": {"k": "string"}}), "line 1, column .*unknown column of stream s 'a'"),
        ((SELF, {"s": {}}), "schema of stream 's' is empty"),
        ((SELF, {"s": {"k": "strin", "a": "int"}}), "schema of stream 's': column 'k': unknown type 'strin'"),
        ((SELF, [SCHEMA]), "schemas is of type list: expected the columns of each stream"),
        ((pa.schema([]), {"s": SCHEMA}), "query is of type Schema: with schemas expected is a statement"),
        ((SELF.replace("s AS", "'s.csv' AS"), {"s": SCHEMA}), "unknown stream 's.csv'"),
        ((SELF.replace("10K", "1 min").replace("'2' ON '8'", "'1 s' ON '1 min'"), {"s": SCHEMA}), "s has no timestamp"),
    ],
)
def test_mistakes_are_sentences(arguments, said):
    with pytest.raises(ConfigurationError, match=said):
        spojoin.Join(*arguments)


def test_options_of_a_statement_are_checked():
    with pytest.raises(ConfigurationError, match="unknown stream or file 'trip'"):
        spojoin.Join(SELF, {"s": SCHEMA}, time={"trip": "a"})
    with pytest.raises(ConfigurationError, match="lateness needs rows in the order of event time"):
        spojoin.Join(SELF, {"s": SCHEMA}, lateness="1 s")
    with pytest.raises(ConfigurationError, match="a query file has its own"):
        spojoin.Join("q.yaml", time="at")
    with pytest.raises(BadData, match="tells no column types"):
        spojoin.Join(SELF, {"s": 3})
