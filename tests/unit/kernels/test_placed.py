"""What stands at a place among a segment's values, beside sorting them."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spojoin.kernels.placed import placed

FEW = st.integers(-2, 2)
ANY = st.integers(np.iinfo(np.int64).min, np.iinfo(np.int64).max)
VALUES = st.one_of(*[st.lists(st.tuples(of, st.booleans()), max_size=40) for of in (FEW, ANY)])


def expected(values: list[tuple[int, bool]], first: int, place: int) -> int:
    """By a sort that keeps the order of equals."""
    order = sorted((code, first + i) for i, (code, is_counted) in enumerate(values) if is_counted)
    if not 0 <= place < len(order):
        return -1
    code = order[place][0]
    return next(i for other, i in order if other == code)


@given(st.lists(st.tuples(VALUES, st.integers(-1, 42)), max_size=5))
def test_the_first_of_the_values_at_a_place(segments: list[tuple[list[tuple[int, bool]], int]]) -> None:
    values = [one for each, _ in segments for one in each]
    offsets = [0, *accumulate(len(each) for each, _ in segments)]
    codes = np.array([code for code, _ in values], np.int64)
    counted = np.array([is_counted for _, is_counted in values], np.bool_)
    places, found = np.array([place for _, place in segments], np.int64), np.full(len(segments), 7)
    placed(codes, counted, np.array(offsets), places, found)
    firsts = [begin for begin, _ in pairwise(offsets)]
    assert found.tolist() == [
        expected(each, first, place) for (each, place), first in zip(segments, firsts, strict=True)
    ]
