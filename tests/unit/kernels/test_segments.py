import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spojoin.kernels.segments import distinct, run_starts


@given(st.lists(st.integers(-3, 3), max_size=30))
def test_distinct_values_ascend(values):
    assert distinct(np.array(values, np.int64)).tolist() == sorted(set(values))


@given(st.lists(st.integers(0, 2), max_size=30))
def test_runs_begin_where_a_value_differs_from_the_one_before(values):
    expected = [i for i, value in enumerate(values) if i == 0 or value != values[i - 1]]
    assert run_starts(np.array(values, np.int64)).tolist() == expected
