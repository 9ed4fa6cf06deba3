"""Running sums beside wavelet matrices, and sums over the mutable part, against the plain sum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from spojoin.kernels import running_sums, sum_matrix, wavelet
from spojoin.kernels.intervals16 import wrapped_intervals
from spojoin.kernels.masked import masked_sums

GREATEST = {"16 bits": 2_000, "32 bits": 2**22, "64 bits": 2**32}


def weights_of(rng, greatest, shape):
    return rng.integers(-greatest, greatest, shape, endpoint=True)


@pytest.mark.parametrize(("name", "width"), [("16 bits", 2), ("32 bits", 4), ("64 bits", 8)])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 700, 5_000])
def test_rectangles_of_places_and_values(n, name, width):
    rng = np.random.default_rng(n)
    permutation, rows = rng.permutation(n), weights_of(rng, GREATEST[name], (2, n))
    rows[:, 0] = GREATEST[name]
    matrix = wavelet.build(permutation.astype(np.uint32))
    matrices = [sum_matrix.build(permutation, row, matrix) for row in rows]
    assert {each.excesses.itemsize for each in matrices} == {width}
    by_value = np.empty_like(permutation)
    by_value[permutation] = np.arange(n)
    orders = [[running_sums.running(order, row) for order in (np.arange(n), by_value)] for row in rows]
    first, second = (np.sort(rng.integers(0, n + 1, (2, 300)), axis=0) for _ in range(2))
    counts, found = sum_matrix.rectangle_sums(matrix, matrices, orders, n, first, second)
    places = np.arange(n)
    for q in range(300):
        inside = (first[0, q] <= places) & (places < first[1, q])
        inside &= (second[0, q] <= permutation) & (permutation < second[1, q])
        assert counts[q] == inside.sum()
        assert found[:, q].tolist() == rows[:, inside].sum(axis=1).tolist()


@pytest.mark.parametrize("name", GREATEST)
@pytest.mark.parametrize("n", [100, 5_000])
@pytest.mark.parametrize("predicates", [1, 2, 3])
def test_masked_sums_of_many_probes(n, name, predicates):
    """Enough tuples and probes for what all slices hold to be summed by rectangles, complements among them."""
    rng, m = np.random.default_rng(n + predicates), 600
    ranks = [rng.permutation(n).astype(np.uint16) for _ in range(predicates)]
    begins, lengths = rng.integers(0, n, (predicates, m)), rng.integers(0, n + 1, (predicates, m))
    wraps = rng.random((predicates, m)) < 0.3
    lengths = np.where(wraps, 2**16 - rng.integers(0, begins + 1).clip(1), np.minimum(lengths, n - begins))
    lower, upper = rng.integers(0, n // 4, m), rng.integers(3 * n // 4, n, m)
    weights = weights_of(rng, GREATEST[name], (3, n))
    starts, lengths = begins.astype(np.uint16), lengths.astype(np.uint16)
    counts, found = masked_sums(ranks, list(starts), list(lengths), lower, upper, weights)
    places = np.arange(n)
    for q in range(0, m, 7):
        holds = (lower[q] <= places) & (places < upper[q])
        for p in range(predicates):
            holds &= (ranks[p] - starts[p, q]) < lengths[p, q]
        assert counts[q] == holds.sum()
        assert found[:, q].tolist() == weights[:, holds].sum(axis=1).tolist()


EXTREME = st.sampled_from([0, 1, -1, 2**16 - 1, 2**16, -(2**15), 2**31, -(2**32) + 1, 2**32 - 1])
SMALL = st.integers(-3, 3)
WEIGHTS = st.sampled_from([SMALL, st.integers(-(2**15), 2**15 - 1), st.integers(0, 2**16 - 1), EXTREME])


@given(data=st.data(), n=st.integers(0, 140))
def test_running_sums_are_those_of_the_first(data, n):
    weights = data.draw(st.lists(data.draw(WEIGHTS), min_size=n, max_size=n))
    order = data.draw(st.permutations(range(n)))
    found = running_sums.running(np.array(order, np.int64), np.array(weights, np.int64))
    first = [sum(weights[place] for place in order[:z]) for z in range(n + 1)]
    assert [at(np.array(found.entry), z) for z in range(n + 1)] == first


@njit
def at(entry, z):
    return running_sums.running_at(entry, z)


@given(data=st.data(), n=st.integers(1, 140), count=st.integers(1, 3))
def test_masked_sums_are_those_of_the_plain_loop(data, n, count):
    """Slices of any length, also empty ones, beside which the last lanes are taken one by one."""
    m = data.draw(st.integers(1, 4))
    ranks = [np.array(data.draw(st.permutations(range(n))), np.uint16) for _ in range(2)]
    ends = np.array(data.draw(st.lists(st.tuples(*[st.integers(0, n)] * 6), min_size=m, max_size=m)))
    (lower, upper), intervals = np.sort(ends[:, :2]).T, [np.sort(ends[:, 2:4]).T, np.sort(ends[:, 4:]).T]
    starts, lengths = zip(*[wrapped_intervals(a, b, n, data.draw(st.booleans())) for a, b in intervals], strict=True)
    rows = [data.draw(st.lists(data.draw(WEIGHTS), min_size=n, max_size=n)) for _ in range(count)]
    counts, found = masked_sums(ranks, starts, lengths, lower, upper, np.array(rows, np.int64))
    for q in range(m):
        inside = [
            j
            for j in range(lower[q], upper[q])
            if all(
                (int(r[j]) - int(s[q])) % 2**16 < s_len[q] for r, s, s_len in zip(ranks, starts, lengths, strict=True)
            )
        ]
        assert counts[q] == len(inside)
        assert found[:, q].tolist() == [sum(row[j] for j in inside) for row in rows]
