import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spojoin.kernels.pairs import interleave, merge_segments

lists = st.lists(st.lists(st.integers(0, 9), max_size=6).map(sorted), min_size=1, max_size=5)
limits = st.none() | st.integers(1, 4)


def segments(parts):
    lengths = [len(part) for part in parts]
    values = [value for part in parts for value in part]
    return np.cumsum([0, *lengths]).astype(np.int64), np.array(values, np.int64)


def unpacked(offsets, values):
    return [values[offsets[q] : offsets[q + 1]].tolist() for q in range(len(offsets) - 1)]


@given(lists, st.data(), limits)
def test_merged_segments_hold_the_earliest_values_of_both(a, data, limit):
    b = data.draw(st.lists(st.lists(st.integers(0, 9), max_size=6).map(sorted), min_size=len(a), max_size=len(a)))
    merged = unpacked(*merge_segments(segments(a), segments(b), limit))
    assert merged == [sorted(x + y)[:limit] for x, y in zip(a, b, strict=True)]


@given(lists, st.data(), limits)
def test_pairs_are_ordered_and_cut_to_the_earliest_partners(rights, data, limit):
    own = st.lists(st.integers(0, 9), max_size=6).map(sorted)
    lefts = data.draw(st.lists(own, min_size=len(rights), max_size=len(rights)))
    first_seq = 100
    expected = []
    for q, (as_right, as_left) in enumerate(zip(rights, lefts, strict=True)):
        seq = first_seq + q
        found = [(partner, 0, (seq, partner, seq)) for partner in as_right]
        found += [(partner, 1, (seq, seq, partner)) for partner in as_left]
        expected += sorted(pair for _, _, pair in sorted(found)[:limit])
    made = interleave(segments(rights), segments(lefts), limit, first_seq)
    assert list(zip(*(column.tolist() for column in made), strict=True)) == expected
