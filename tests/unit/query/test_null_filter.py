"""A filter that has no value for any row of a batch: its values have Arrow's null type."""

from __future__ import annotations

import pyarrow as pa

from spojoin.columns.extract import extract
from spojoin.query.load import parse_query

QUERY = """
name: failing
streams: {a: {schema: {i: int, s: string}}}
sql: |
  SELECT l.i FROM a AS l JOIN a AS r ON l.i < r.i WHERE CAST(l.s AS INTEGER) > 0
  WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""


def test_rows_without_a_value_of_their_filter_are_refused():
    query = parse_query(QUERY)
    found = extract(query.inputs[0], pa.record_batch({"i": [1, 2], "s": ["x", "y"]}), False)
    assert [(each.row, each.reason) for each in found.refused] == [(0, "expression"), (1, "expression")]
    assert len(found.kept) == 0
