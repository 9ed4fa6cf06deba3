from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.kernels import chunked
from spojoin.kernels.chunked import Chunked

steps = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 60), st.integers(0, 9)), max_size=30)


@pytest.fixture(autouse=True)
def _chunks_are_small() -> Iterator[None]:
    with patch.object(chunked, "CHUNK_ROWS", 7):
        yield


@given(steps, st.integers(0, 5))
def test_rows_are_the_end_of_everything_appended(steps, first):
    held, whole, dropped = Chunked(first, 2), [], 0
    for count, drop, left in steps:
        values = np.arange(len(whole), len(whole) + count)
        held.append([values, -values])
        whole += values.tolist()
        held.drop_below(first + drop)
        dropped = max(dropped, min(drop, len(whole)))
        assert (held.first, held.end, len(held)) == (first + dropped, first + len(whole), len(whole) - dropped)
        end = max(len(whole) - left, dropped)
        expected = whole[dropped:end]
        assert held.rows(first + end).tolist() == [expected, [-value for value in expected]]
        assert held.column(1, first + end).tolist() == [-value for value in expected]
        if len(held):
            assert (held.value(0), held.value(1)) == (whole[dropped], -whole[dropped])
        assert held.nbytes <= 16 * (len(held) + 2 * 7), "at most two chunks are part empty"


def test_what_is_read_stays_when_more_is_appended():
    held = Chunked(0, 1)
    held.append([np.arange(10)])
    read = held.rows(10)
    held.drop_below(8)
    held.append([np.arange(100, 120)])
    assert read.tolist() == [list(range(10))]


def test_rows_that_are_not_held_are_refused():
    held = Chunked(3, 1)
    with pytest.raises(IndexError, match="no row"):
        held.value(0)
    held.append([np.array([1, 2])])
    with pytest.raises(IndexError, match=r"up to 6 .*\[3, 5\)"):
        held.rows(6)
