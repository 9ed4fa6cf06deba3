"""Boxes of ranks over three columns, and bands over two, against a comparison of every tuple."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.kernels import boxes, permutation, wavelet
from spojoin.kernels.boxes import BoxSide

SIZES = [1, 2, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000, 1 << 12, (1 << 12) + 1]
#: More corners than descend together.
MANY = 2500


def columns(n, random):
    return random.permutation(n), random.permutation(n)


def built(ys, zs):
    dtype = permutation.rank_type(len(ys))
    return boxes.build(ys.astype(dtype), zs.astype(dtype))


def edges(n, random, count):
    return random.choice([0, 0, n, n, n // 2, min(n, 64), *random.integers(0, n + 1, 8)], count)


def sides_of(n, random, m, complements):
    ends = (np.sort(edges(n, random, (2, m)), axis=0) for _ in complements)
    return [BoxSide(a, b, complement) for (a, b), complement in zip(ends, complements, strict=True)]


def holds(side, q, ranks):
    return ((ranks >= side.a[q]) & (ranks < side.b[q])) != side.complement


def scanned(ys, zs, sides):
    ranks = np.arange(len(ys)), ys, zs
    return [
        int(np.sum(np.all([holds(side, q, column) for side, column in zip(sides, ranks, strict=True)], axis=0)))
        for q in range(len(sides[0].a))
    ]


@pytest.mark.parametrize("complements", list(itertools.product([False, True], repeat=3)))
@pytest.mark.parametrize("n", SIZES)
def test_boxes_are_counted_at_every_size(n, complements):
    random = np.random.default_rng([n, *complements])
    ys, zs = columns(n, random)
    sides = sides_of(n, random, 60, complements)
    assert boxes.box_counts(built(ys, zs), *sides).tolist() == scanned(ys, zs, sides)


@pytest.mark.parametrize("n", [64, 100, 128])
def test_all_octants_at_all_ends(n):
    """Every side is a ray, or everything, or nothing; each bound of the padded domain is met by every column."""
    random = np.random.default_rng(n)
    ys, zs = columns(n, random)
    rays = [*((0, end) for end in (0, 1, 63, 64, n)), *((begin, n) for begin in (1, 64, n - 1, n))]
    chosen = np.array(list(itertools.product(rays, repeat=3)))
    for some in (chosen, *(chosen[at : at + 1] for at in range(0, len(chosen), 97))):
        sides = [BoxSide(some[:, k, 0], some[:, k, 1], False) for k in range(3)]
        assert boxes.box_counts(built(ys, zs), *sides).tolist() == scanned(ys, zs, sides)


@pytest.mark.parametrize("kind", ["below", "above", "bands"])
def test_more_boxes_than_descend_together(kind):
    random = np.random.default_rng(5)
    n = 1 << 11
    ys, zs = columns(n, random)
    ends = [np.sort(random.integers(0, n + 1, (2, MANY)), axis=0) for _ in range(3)]
    if kind != "bands":
        for a, b in ends:
            a[:], b[:] = (0, b) if kind == "below" else (a, n)
    sides = [BoxSide(a, b, False) for a, b in ends]
    found = boxes.box_counts(built(ys, zs), *sides)
    checked = random.choice(MANY, 200, replace=False)
    want = scanned(ys, zs, [BoxSide(side.a[checked], side.b[checked], False) for side in sides])
    assert found[checked].tolist() == want
    assert MANY > boxes._TOGETHER


@given(data=st.data(), levels=st.integers(0, 6), values=st.sampled_from([1, 2, 5, 300]))
def test_columns_of_few_values_make_boxes(data, levels, values):
    n = data.draw(st.integers(1, (2 << levels) + 1))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    stored = random.integers(0, values, (3, n))
    orders = [permutation.sort_column(codes)[1] for codes in stored]
    matrices = boxes.build(*(permutation.permutation(orders[0], order) for order in orders[1:]))
    probes = np.sort(random.integers(-1, values + 1, (2, 3, 5)), axis=0)
    complements = data.draw(st.tuples(*[st.booleans()] * 3))
    sides = []
    for k, complement in enumerate(complements):
        codes = np.sort(stored[k])
        sides.append(
            BoxSide(np.searchsorted(codes, probes[0, k]), np.searchsorted(codes, probes[1, k], "right"), complement)
        )
    counts = boxes.box_counts(matrices, *sides)
    for q in range(5):
        inside = (stored >= probes[0, :, q, None]) & (stored <= probes[1, :, q, None])
        assert counts[q] == np.sum((inside != np.array(complements)[:, None]).all(axis=0))


def test_no_boxes_have_no_counts():
    none = BoxSide(np.zeros(0, np.int64), np.zeros(0, np.int64), False)
    assert boxes.box_counts(built(np.arange(9), np.arange(9)), none, none, none).tolist() == []


def test_boxes_of_a_large_node_take_at_most_64_bytes_a_tuple():
    n = 1 << 18
    assert built(np.arange(n), np.arange(n)).nbytes <= 64 * n


@pytest.mark.parametrize("width", [1, 3, 20, 300, 1 << 12])
@pytest.mark.parametrize("n", [*SIZES, 1 << 13])
def test_bands_of_every_width(n, width):
    """Ranges of both columns that end nowhere, which share a descent as long as nodes are wider."""
    random = np.random.default_rng([n, width])
    shuffled = random.permutation(n)
    matrix = wavelet.build(shuffled.astype(permutation.rank_type(n)))
    m = 5000 if n == 1 << 13 else 300
    a0, a1 = random.integers(0, n + 1, (2, m))
    b0, b1 = (np.minimum(a + random.integers(0, width + 1, m), n) for a in (a0, a1))
    a0[0], b0[0], a1[0], b1[0] = n // 2, n // 2, n // 2, n // 2
    found = wavelet.rectangle_counts(matrix, n, a0, b0, a1, b1)
    for q in range(m):
        inside = shuffled[a0[q] : b0[q]]
        assert found[q] == np.sum((inside >= a1[q]) & (inside < b1[q]))
