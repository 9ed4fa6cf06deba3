"""Filters come first, then keys of the rows that pass; rows for which an expression fails are refused."""

import pyarrow as pa

from spojoin.columns.extract import extract
from spojoin.query.load import parse_query

TEXT = """\
name: q
streams:
  a: {schema: {i: int, s: string, d: double}}
sql: |
  SELECT l.s FROM a AS l JOIN a AS r ON CONDITION WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""


def extracted(condition: str, **columns):
    query = parse_query(TEXT.replace("CONDITION", condition))
    whole = {"i": [1] * 4, "s": ["a"] * 4, "d": [1.0] * 4} | columns
    return extract(query.inputs[0], pa.record_batch(whole), False)


def test_a_row_takes_part_in_each_stream_whose_filter_it_passes():
    got = extracted("l.i = r.i AND l.d > 1 AND r.d > 2", d=[1.0, 2.0, 3.0, None])
    assert got.kept.tolist() == [0, 1, 2, 3]
    assert got.members.tolist() == [0, 1, 3, 0]
    assert got.joins.tolist() == [0, 1, 3, 0]


def test_a_null_key_keeps_its_place_and_joins_nothing():
    got = extracted("l.i = r.i AND l.d > 1", i=[1, None, None, 2], d=[2.0, 2.0, 0.0, 0.0])
    assert got.members.tolist() == [3, 3, 2, 2]
    assert got.joins.tolist() == [3, 0, 0, 2]


def test_filters_come_before_keys():
    """A key that would fail is not asked of a row that no filter lets pass."""
    texts = ["5", "x", "y", "7"]
    passing = "l.d > 1 AND r.d > 1 AND l.i < r.i + 5"
    got = extracted(f"CAST(l.s AS INTEGER) = CAST(r.s AS INTEGER) AND {passing}", s=texts, d=[2.0, 0.0, 2.0, 2.0])
    assert [(row.row, row.reason) for row in got.refused] == [(2, "expression")]
    assert "Could not convert string 'y' to INT32" in got.refused[0].detail
    assert (got.kept.tolist(), got.members.tolist()) == ([0, 1, 3], [3, 0, 3])
    assert got.codes[0][[0, 2]].tolist() == [5, 7]


def test_a_filter_that_fails_refuses_its_row():
    got = extracted("l.i = r.i AND CAST(l.s AS INTEGER) > 5", s=["5", "x", None, "7"])
    assert [(row.row, row.reason) for row in got.refused] == [(1, "expression")]
    assert (got.kept.tolist(), got.members.tolist()) == ([0, 2, 3], [2, 2, 3])


def test_an_overflow_of_the_engine_is_a_failure():
    got = extracted("l.i * l.i < r.i", i=[1, 2**31 - 1, 3, None])
    assert [(row.row, row.reason) for row in got.refused] == [(1, "expression")]
    assert got.joins.tolist() == [3, 3, 0]


def test_payload_and_values_of_texts():
    got = extracted("lower(l.s) = lower(r.s) AND l.i < 3", s=["A", "b", None, "Ä"], i=[1, 5, 1, 1])
    assert got.payload.column("s").to_pylist() == ["A", "b", None, "Ä"]
    (values,) = [name for name in got.payload.schema.names if "LOWER" in name]
    lowered = got.payload.column(values).to_pylist()
    assert [value for value, joins in zip(lowered, got.joins.tolist(), strict=True) if joins] == ["a", "b", "ä"]
    assert got.joins.tolist() == [3, 2, 0, 3]
