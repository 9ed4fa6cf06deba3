"""Ranges of texts, and NULLs that are taken for equal, against DuckDB."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spojoin
from tests.support.by_duckdb import by_duckdb

#: Alike in the first eight bytes, or of fewer; some with a zero, which is also what shorter ones are filled up with.
WORDS = ["", "\0", "a", "abcdefg", "abcdefgh", "abcdefgh\0", "abcdefghi", "abcdefgé", "Ä", "Z", "10115", "1011"]
TYPES = {"s": pa.string(), "t": pa.string(), "x": pa.int64(), "d": pa.float64(), "day": pa.date32(), "b": pa.binary()}
VALUES = {
    "s": WORDS,
    "t": WORDS,
    "x": [0, 1, 2],
    "d": [0.0, -0.0, 1.0, float("nan")],
    "day": [0, 1],
    "b": [b"", b"\xff", b"\xffabcdefgh"],
}
CONDITIONS = [
    "l.s BETWEEN r.s AND r.t",
    "l.s > r.s AND l.s < r.t",
    "NOT l.s < r.t AND l.x <= r.x",
    "lower(l.s) >= r.t",
    "l.b <= r.b",
    "l.s <= r.s AND l.x <= r.x AND l.x >= r.x - 1",
    "CAST(l.x AS VARCHAR) > CAST(r.d AS VARCHAR) AND l.x <= r.x + 1",
    "l.x || '-' < r.x || '-'",
    "l.s IS NOT DISTINCT FROM r.t",
    "l.x IS NOT DISTINCT FROM r.x AND l.s <= r.t",
    "l.d IS NOT DISTINCT FROM r.d",
    "l.x IS NOT DISTINCT FROM r.d AND l.day IS NOT DISTINCT FROM r.day",
    "NOT l.b IS DISTINCT FROM r.b",
    "l.x IS DISTINCT FROM r.x AND l.d IS NOT DISTINCT FROM r.d",
]


@st.composite
def tables(draw):
    rows = draw(st.integers(1, 8))
    columns = {
        name: pa.array(draw(st.lists(st.sampled_from([None, *VALUES[name]]), min_size=rows, max_size=rows)), kind)
        for name, kind in TYPES.items()
    }
    return pa.table({"id": range(rows)} | columns)


@given(st.sampled_from(CONDITIONS), st.sampled_from(["JOIN", "LEFT JOIN", "ANTI JOIN"]), tables(), tables())
def test_pairs_are_those_of_duckdb(condition, join, a, b):
    listed = "l.id" if join == "ANTI JOIN" else "l.id, r.id AS partner"
    statement = f"SELECT {listed} FROM a AS l {join} {{}} AS r ON {condition}"
    found = spojoin.sql(statement.format("TABLE(b)"), a=a, b=b).to_arrow().to_pydict()
    expected = by_duckdb(statement.format("b"), a=a, b=b)
    assert sorted(zip(*found.values(), strict=True), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_self_join_of_a_stream_finds_all_pairs_but_rows_with_themselves(condition):
    a = pa.table({name: pa.array([None, *values, *values], kind) for (name, values), kind in
                  zip(((n, (VALUES[n] * 3)[:5]) for n in TYPES), TYPES.values(), strict=True)})  # fmt: skip
    a = a.add_column(0, "id", pa.array(range(len(a))))
    statement = f"SELECT l.id, r.id AS partner FROM a AS l JOIN a AS r ON {condition}"
    found = spojoin.sql(statement + " WINDOW AS (SLIDE INTERVAL '1' ON '100')", a=a).to_arrow().to_pydict()
    expected = [row for row in by_duckdb(statement, a=a) if row[0] != row[1]]
    assert sorted(zip(*found.values(), strict=True), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("condition", "places"),
    [
        ("l.s <= r.s", (1, 1)),
        ("l.s BETWEEN r.s AND r.t", (2, 2)),
        ("l.x < r.x AND l.d < r.d AND l.s <= r.s", (2, 1)),
        ("l.s IS NOT DISTINCT FROM r.s", (2, 0)),
    ],
)
def test_where_they_are_evaluated(condition, places):
    schema = {"s": "string", "t": "string", "x": "long", "d": "double"}
    with spojoin.Join(f"SELECT l.s FROM a AS l JOIN TABLE(b) AS r ON {condition}", {"a": schema, "b": schema}) as join:
        assert (len(join.query.predicates), len(join.query.residuals)) == places
