import asyncio
from types import MappingProxyType

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pytest

import spojoin
from spojoin.errors import BadData, ConfigurationError
from tests.support.nested_loop import counts

QUERY = """
name: q
streams:
  s: {schema: {a: int}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '100')
"""
VALUES = [3, 1, 2, 2, 0]


def naive(values):
    found = counts([np.array(values)], lambda left, right: left[0] < right[0], 100)
    return [{"seq": t, "stream": "s", "key": t, "matches": a + b, "as_left": a, "as_right": b} for t, a, b in found]


@pytest.mark.parametrize(
    "form",
    [
        lambda v: {"a": v},
        lambda v: MappingProxyType({"a": np.array(v)}),
        lambda v: pl.DataFrame({"a": v}),
        lambda v: [pa.table({"a": v[:1]}), {"a": v[1:]}],
        lambda v: (pa.record_batch({"a": [value]}) for value in v),
        lambda v: pa.table({"a": v}).to_reader(1),
        lambda v: pa_dataset.dataset(pa.table({"other": v, "a": v})),
        lambda v: {"a": np.array(v)},
        lambda v: pa.table({"other": v, "a": v}),
        lambda v: pa.record_batch({"a": v}),
        lambda v: pd.DataFrame({"a": v}, index=[7] * len(v)),
    ],
)
def test_every_form_of_rows_gives_the_same_results(form):
    with spojoin.Join(QUERY) as join:
        tables = [join.push(form(VALUES[:3])), join.push(form(VALUES[3:]), "s"), join.flush()]
        assert pa.concat_tables(tables).to_pylist() == naive(VALUES)
        assert (join.tuples, join.matches) == (5, sum(r["matches"] for r in naive(VALUES)))


def test_the_window_slides_on_after_a_flush(tmp_path):
    (tmp_path / "q.yaml").write_text(QUERY)
    join = spojoin.Join(tmp_path / "q.yaml")
    rows = []
    for value in VALUES:
        rows += join.push({"a": [value]}).to_pylist() + join.flush().to_pylist()
    assert rows == naive(VALUES)


def test_refused_rows_are_counted_and_reported():
    join = spojoin.Join(QUERY)
    join.push({"a": pa.array([1, 2**40, None])})
    assert [row["matches"] for row in join.flush().to_pylist()] == [0, 0]
    assert join.rejected == {"overflow": 1}
    assert [(r.offset, r.reason) for r in join.take_rejects()] == [(1, "overflow")]


def test_mistakes_are_named():
    join = spojoin.Join(QUERY)
    with pytest.raises(ConfigurationError, match="expected one of 's'"):
        join.push({"a": [1]}, "x")
    with pytest.raises(ConfigurationError, match="no column 'a'; they have b"):
        join.push({"b": [1]})
    with pytest.raises(BadData, match="rows must be"):
        join.push(3)
    join.close()
    with pytest.raises(ConfigurationError, match="closed"):
        join.flush()


CLOSING = (
    "SELECT l.value, COUNT(r.value) AS higher FROM readings AS l LEFT JOIN readings AS r ON l.value < r.value "
    "GROUP BY l WINDOW AS (SLIDE INTERVAL '1' ON '1000') EMIT ON CLOSE"
)


def test_open_rows_are_answered_at_the_end_alone():
    with spojoin.Join(CLOSING, {"readings": {"value": "int"}}) as join:
        assert join.push({"value": [1, 5, 3]}).num_rows == 0
        assert join.flush().num_rows == 0
        assert join.finish().to_pylist() == [{"value": v, "higher": n} for v, n in ((1, 2), (5, 0), (3, 1))]
        assert join.finish().num_rows == 0


def test_feeds_that_end_close_all_rows():
    async def readings():
        for value in (1, 5, 3):
            yield {"value": [value]}

    async def found():
        with spojoin.Join(CLOSING, {"readings": {"value": "int"}}) as join:
            return [row async for table in join.results(readings()) for row in table.to_pylist()]

    assert asyncio.run(found()) == [{"value": v, "higher": n} for v, n in ((1, 2), (5, 0), (3, 1))]
