"""A sorted tail is what sorting all of its codes gives, however they came and went."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.kernels.bounds import GREATEST, LEAST
from spojoin.kernels.intervals16 import STORED_MAX
from spojoin.kernels.permutation import sort_column
from spojoin.kernels.ranks import sought
from spojoin.kernels.sorted_tail import SortedTail, empty_tail

codes = st.sampled_from([LEAST, -1, 0, 1, 2, 3, GREATEST])
#: How many indexes are dropped before some codes are added.
steps = st.lists(st.tuples(st.integers(0, 12), st.lists(codes, max_size=9)), max_size=8)


def as_array(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


def check(tail: SortedTail, held: list[int]) -> None:
    ascending = sorted(range(len(held)), key=lambda offset: (held[offset], offset))
    assert tail.codes.tolist() == sorted(held)
    assert tail.order.tolist() == ascending
    assert [ascending[rank] for rank in tail.ranks.tolist()] == list(range(len(held)))


@given(first=st.integers(0, 5), steps=steps)
def test_it_is_sorted_whatever_comes_and_goes(first: int, steps: list[tuple[int, list[int]]]) -> None:
    tail, held = empty_tail(first), []
    for dropped, added in steps:
        tail = tail.advanced(tail.first + dropped, sort_column(as_array(added)))
        held = held[dropped:] + added
        check(tail, held)
        assert tail.end == tail.first + len(held)


@given(held=st.lists(codes, max_size=40), cut=st.integers(-1, 45))
def test_what_is_left_from_an_index_on(held: list[int], cut: int) -> None:
    tail = empty_tail(7).advanced(7, sort_column(as_array(held)))
    kept = held[max(cut, 0) :]
    found, order = tail.since(7 + cut)
    expected, expected_order = sort_column(as_array(kept))
    assert found.tolist() == expected.tolist()
    assert order.tolist() == expected_order.tolist()


@given(held=st.lists(codes, max_size=40), probes=st.lists(codes, max_size=10))
def test_probes_find_where_they_fall(held: list[int], probes: list[int]) -> None:
    tail = empty_tail(0).advanced(0, sort_column(as_array(held)))
    below, upto = tail.found(sought(as_array(probes)))
    assert below.tolist() == [bisect_left(sorted(held), probe) for probe in probes]
    assert upto.tolist() == [bisect_right(sorted(held), probe) for probe in probes]


def test_it_stays_as_it_was_when_others_are_made_of_it() -> None:
    tail = empty_tail(0).advanced(0, sort_column(as_array([3, 1, 2])))
    tail.advanced(1, sort_column(as_array([0])))
    check(tail, [3, 1, 2])


def test_more_codes_than_ranks_are_refused() -> None:
    tail = empty_tail(0).advanced(0, sort_column(np.zeros(STORED_MAX, np.int64)))
    with pytest.raises(ValueError, match="hand over sooner"):
        tail.advanced(0, sort_column(as_array([1])))
