import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.kernels.tail import Tail

steps = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 50)), max_size=30)


@given(steps, st.integers(0, 5))
def test_a_tail_is_the_end_of_everything_appended(steps, first):
    tail, whole, dropped = Tail(first, capacity=4), [], 0
    for count, drop in steps:
        values = list(range(len(whole), len(whole) + count))
        tail.append(np.array(values, np.int64))
        whole += values
        tail.drop_below(first + drop)
        dropped = max(dropped, min(drop, len(whole)))
        assert (tail.first, tail.end) == (first + dropped, first + len(whole))
        assert tail.view(tail.first, tail.end).tolist() == whole[dropped:]


@given(steps)
def test_several_columns_are_held_alike(steps):
    tail, one = Tail(capacity=4, columns=2), Tail(capacity=4)
    for count, drop in steps:
        values = np.arange(tail.end, tail.end + count)
        tail.append(np.stack([values, -values]))
        one.append(values)
        tail.drop_below(drop)
        one.drop_below(drop)
        assert (tail.first, tail.end, len(tail)) == (one.first, one.end, len(one))
        assert tail.held.tolist() == [one.held.tolist(), (-one.held).tolist()]
        places = slice(tail.first - tail.origin, tail.end - tail.origin)
        assert tail.buffer[0, places].tolist() == list(range(tail.first, tail.end))
        assert tail.nbytes == 2 * one.nbytes == 16 * len(one)


def test_positions_outside_the_tail_are_refused():
    tail = Tail(3)
    tail.append(np.array([1, 2], np.int64))
    with pytest.raises(IndexError, match=r"\[2, 4\).*\[3, 5\)"):
        tail.view(2, 4)
