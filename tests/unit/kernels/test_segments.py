import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spojoin.kernels.segments import distinct


@given(st.lists(st.integers(-3, 3), max_size=30))
def test_distinct_values_ascend(values):
    assert distinct(np.array(values, np.int64)).tolist() == sorted(set(values))
