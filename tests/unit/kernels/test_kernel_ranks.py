from bisect import bisect_left, bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.kernels import permutation
from spojoin.kernels.ranks import rank_intervals, ranks, sorted_keys, sought

LEAST, GREATEST = -(2**63), 2**63 - 1
codes = st.one_of(st.integers(-3, 3), st.sampled_from([LEAST, LEAST + 1, GREATEST - 1, GREATEST]))
columns = st.lists(codes, max_size=40).map(sorted)


@given(column=columns, probes=st.lists(codes))
def test_ranks_count_the_codes_below_and_up_to_each_probe(column, probes):
    below, upto = ranks(sorted_keys(np.array(column, np.int64)), sought(np.array(probes, np.int64)))
    assert below.tolist() == [bisect_left(column, p) for p in probes]
    assert upto.tolist() == [bisect_right(column, p) for p in probes]


@pytest.mark.parametrize("probes", [1, 2, 3, 5, 700])
@pytest.mark.parametrize(("n", "values"), [(7, 9), (3000, 40), (3000, 2500), (40_000, 1 << 40)])
def test_long_columns_are_searched_by_few_and_many_probes(probes, n, values):
    random = np.random.default_rng(n + probes)
    column = np.sort(np.append(random.integers(0, values, n), np.full(n // 3, values // 2)))
    wanted = np.append(random.integers(-2, values + 2, probes), values // 2)
    below, upto = ranks(sorted_keys(column), sought(wanted))
    assert below.tolist() == np.searchsorted(column, wanted).tolist()
    assert upto.tolist() == np.searchsorted(column, wanted, "right").tolist()


@given(column=columns, probes=st.lists(st.tuples(codes, codes)))
def test_rank_intervals_hold_the_codes_between_two(column, probes):
    lo, hi = (np.array([p[i] for p in probes], np.int64) for i in (0, 1))
    a, b = rank_intervals(sorted_keys(np.array(column, np.int64)), lo, hi)
    for q, (low, high) in enumerate(probes):
        if low > high:
            assert a[q] == b[q]
        else:
            assert (a[q], b[q]) == (bisect_left(column, low), bisect_right(column, high))


@pytest.mark.parametrize("step", [1, 1 << 60])
@pytest.mark.parametrize("n", [0, 1, 2, 100, 128, 129, 1000])
def test_a_column_is_sorted_with_ties_by_arrival(n, step):
    values = np.random.default_rng(n).integers(-2, 3, n) * step
    sorted_codes, order = permutation.sort_column(values)
    pairs = sorted((int(v), j) for j, v in enumerate(values))
    assert list(zip(sorted_codes.tolist(), order.tolist(), strict=True)) == pairs
    assert order.dtype == np.uint16


@given(first=st.lists(codes, max_size=30), second=st.lists(codes, max_size=30))
def test_merging_and_splitting_are_sorting_the_whole_and_its_parts(first, second):
    parts = [permutation.sort_column(np.array(p, np.int64)) for p in (first, second)]
    whole = permutation.sort_column(np.array(first + second, np.int64))
    equal_columns(permutation.merge_sorted(*parts), whole)
    for got, want in zip(permutation.split_sorted(whole, len(first)), parts, strict=True):
        equal_columns(got, want)


def equal_columns(got, want):
    for g, w in zip(got, want, strict=True):
        assert g.tolist() == w.tolist()
        assert g.dtype == w.dtype


@given(pairs=st.lists(st.tuples(codes, codes), min_size=1))
def test_the_permutation_maps_one_order_to_the_other(pairs):
    a, b = (permutation.sort_column(np.array(c, np.int64))[1] for c in zip(*pairs, strict=True))
    mapped = permutation.permutation(a, b)
    for rank, tuple_offset in enumerate(a.tolist()):
        assert b[mapped[rank]] == tuple_offset
        assert permutation.positions(b)[tuple_offset] == mapped[rank]


def test_a_large_column_has_wide_ranks():
    values = np.arange(1 << 17)[::-1].copy()
    _codes, order = permutation.sort_column(values)
    assert order.dtype == np.uint32
    assert order[0] == (1 << 17) - 1
