"""The three ways to match, on the same tie-dense cases: 16-bit scans, wavelet rectangles, bitmaps."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.kernels import bitmaps, common_slice, intervals16, permutation, wavelet
from spojoin.kernels.bounds import bounds
from spojoin.kernels.ranks import rank_intervals, sorted_keys
from spojoin.model import Domain, Op
from tests.support.nested_loop import matching

WIDTH = 2


@st.composite
def cases(draw):
    predicates = draw(st.integers(1, 4))
    value = st.integers(0, draw(st.sampled_from([1, 3, 30])))
    row = st.tuples(*[value] * predicates)
    ops = draw(st.tuples(*[st.sampled_from(Op)] * predicates))
    return ops, draw(st.lists(row, max_size=90)), draw(st.lists(row, max_size=6))


def column(rows, p):
    return np.array([row[p] for row in rows], np.int64)


def scan_arguments(ops, stored, probes):
    columns = []
    for p, op in enumerate(ops):
        lo, hi = bounds(op, Domain.INTEGER, WIDTH, column(probes, p))
        columns.append(intervals16.rank_columns(column(stored, p), lo, hi, op is Op.NE))
    return [list(part) for part in zip(*columns, strict=True)]


@pytest.mark.parametrize("pays_from", [(common_slice.TUPLES_MIN, common_slice.PROBES_MIN), (1, 1)])
@given(case=cases(), data=st.data(), limit=st.one_of(st.none(), st.integers(0, 5)))
def test_the_matches_of_a_slice_are_found(pays_from, case, data, limit):
    ops, stored, probes = case
    end = st.integers(0, len(stored))
    slices = [sorted(data.draw(st.tuples(end, end))) for _ in probes]
    lo, hi = (np.array([s[i] for s in slices], np.int64) for i in (0, 1))
    arguments = scan_arguments(ops, stored, probes)
    with (
        patch.object(common_slice, "PROBES_MIN", pays_from[1]),
        patch.multiple(intervals16, TUPLES_MIN=pays_from[0], PROBES_MIN=pays_from[1]),
    ):
        counts, offsets, partners = intervals16.and_collect(*arguments, lo, hi, limit)
        assert intervals16.and_counts(*arguments, lo, hi).tolist() == counts.tolist()
    for q, probe in enumerate(probes):
        found = matching(stored, probe, [o.name for o in ops], [WIDTH] * len(ops))
        want = [j for j in found if lo[q] <= j < hi[q]]
        assert counts[q] == len(want)
        assert partners[offsets[q] : offsets[q + 1]].tolist() == want[:limit]


@pytest.mark.parametrize("predicates", [1, 2, 3])
@pytest.mark.parametrize("n", [127, 3_000, intervals16.STORED_MAX])
def test_probes_of_few_candidates_list_what_a_scan_finds(n, predicates):
    random = np.random.default_rng(n + predicates)
    ranks = [random.permutation(n).astype(np.uint16) for _ in range(predicates)]
    starts = [random.integers(0, 1 << 16, 200).astype(np.uint16) for _ in ranks]  # some go round
    lengths = [random.choice([0, 1, n // 200, n // 128, n // 2, n], 200).astype(np.uint16) for _ in ranks]
    lo, hi = np.sort(random.integers(0, n + 1, (2, 200)), axis=0)
    for limit in (None, 2):
        counts, offsets, partners = intervals16.and_collect(ranks, starts, lengths, lo, hi, limit)
        for q in range(200):
            holds = np.arange(n)[lo[q] : hi[q]]
            for r, start, length in zip(ranks, starts, lengths, strict=True):
                holds = holds[r[holds] - start[q] < length[q]]
            assert counts[q] == len(holds)
            assert partners[offsets[q] : offsets[q + 1]].tolist() == holds[:limit].tolist()


@pytest.mark.parametrize("complement", [False, True])
@pytest.mark.parametrize("n", [0, 1, 16, intervals16.STORED_MAX])
def test_intervals_wrap_at_every_size(n, complement):
    a, b = np.array([0, 0, n, n // 2]), np.array([0, n, n, n])
    positions = np.arange(n, dtype=np.uint16)
    start, length = intervals16.wrapped_intervals(a, b, n, complement)
    everything = np.zeros(4, np.int64), np.full(4, n)
    inside = (b - a).tolist()
    want = [n - i for i in inside] if complement else inside
    assert intervals16.and_counts([positions], [start], [length], *everything).tolist() == want


@pytest.mark.parametrize("complements", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 1_000, intervals16.STORED_MAX])
def test_what_all_slices_hold_is_counted_at_every_size(n, complements):
    random = np.random.default_rng(n)
    ranks = [random.permutation(n).astype(np.uint16) for _ in complements]
    ends = [np.sort(random.choice([0, n, *random.integers(0, n + 1, 20)], (2, 40)), axis=0) for _ in complements]
    wrapped = [intervals16.wrapped_intervals(*e, n, c) for e, c in zip(ends, complements, strict=True)]
    begin, end = n // 3, n - n // 4
    counts = common_slice.count_common(tuple(ranks), *zip(*wrapped, strict=True), begin, end)
    for q in range(40):
        holds = np.ones(end - begin, bool)
        for r, (a, b), is_complement in zip(ranks, ends, complements, strict=True):
            holds &= ((a[q] <= r[begin:end]) & (r[begin:end] < b[q])) ^ is_complement
        assert counts[q] == holds.sum()


@pytest.mark.parametrize("slices", ["all before, and itself", "only itself", "a window that moves"])
@pytest.mark.parametrize("rare", [0.0, 0.1, 0.9])
def test_a_large_frame_is_counted_as_one_by_one(rare, slices):
    random, m = np.random.default_rng(int(10 * rare)), 4 * common_slice.PROBES_MIN
    before = {"all before, and itself": 2_000, "only itself": 0, "a window that moves": 1_700}[slices]
    n, hi = before + m, before + np.arange(m)
    lo = np.maximum(hi - before, 0) if slices == "a window that moves" else np.zeros(m, np.int64)
    ranks = [random.permutation(n).astype(np.uint16) for _ in range(2)]
    begins = random.integers(0, n, (2, m))
    ends = np.where(random.random((2, m)) < rare, begins + 3, random.integers(begins, n)).clip(0, n)
    wrapped = [intervals16.wrapped_intervals(begins[p], ends[p], n, bool(p)) for p in range(2)]
    starts, lengths = ([each[k] for each in wrapped] for k in range(2))
    with patch.object(intervals16, "TUPLES_MIN", 300):
        counts = intervals16.and_counts(ranks, starts, lengths, lo, hi)
    for q in range(m):
        first, second = (ranks[p][lo[q] : hi[q]] for p in range(2))
        holds = (begins[0, q] <= first) & (first < ends[0, q]) & ~((begins[1, q] <= second) & (second < ends[1, q]))
        assert counts[q] == np.count_nonzero(holds)


def seen(pieces, m, n):
    """How often the pieces give each of n tuples to each of m probes, (m, n)."""
    found = np.zeros((m, n), np.int64)
    for probes, lo, hi in pieces:
        rows = range(m)[probes]
        for row, begin, end in zip(rows, np.broadcast_to(lo, len(rows)), np.broadcast_to(hi, len(rows)), strict=True):
            found[row, begin:end] += 1
    return found


@pytest.mark.parametrize("is_ascending", [True, False])
@given(data=st.data(), probes_min=st.integers(1, 4), tuples_min=st.integers(1, 5))
def test_pieces_hold_each_slice_once(is_ascending, data, probes_min, tuples_min):
    m, n = data.draw(st.integers(1, 20)), 30
    ends = st.lists(st.integers(0, n), min_size=m, max_size=m)
    lo, hi = (np.array(sorted(each) if is_ascending else each) for each in (data.draw(ends), data.draw(ends)))
    lo, hi = np.minimum(lo, hi), np.maximum(lo, hi)
    with patch.object(common_slice, "PROBES_MIN", probes_min):
        pieces = list(common_slice.divided(lo, hi, tuples_min))
    tuples = np.arange(n)
    assert (seen(pieces, m, n) == ((lo[:, None] <= tuples) & (tuples < hi[:, None]))).all()
    for piece in pieces:
        if isinstance(piece, common_slice.Common):
            assert piece.end - piece.begin >= tuples_min
            assert len(range(m)[piece.probes]) >= probes_min


def test_what_a_frame_sees_of_itself_is_halved_while_that_pays():
    m, before = 8 * common_slice.PROBES_MIN, 100
    pieces = list(common_slice.divided(np.zeros(m, np.int64), before + np.arange(m), m // 4))
    common = [(each.probes.start, each.begin, each.end) for each in pieces if isinstance(each, common_slice.Common)]
    quarter = m // 4
    assert common == [
        (quarter, 0, before + quarter),
        (2 * quarter, 0, before + 2 * quarter),
        (3 * quarter, before + 2 * quarter, before + 3 * quarter),
    ]


def test_more_tuples_than_ranks_are_refused():
    none = np.zeros(0, np.int64)
    with pytest.raises(ValueError, match="65535 tuples, at most 65534"):
        intervals16.rank_columns(np.zeros(65535, np.int64), none, none, False)


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 127, 128, 1000, 1 << 13, (1 << 16) + 1])
def test_rectangles_are_counted_at_every_size(n):
    random = np.random.default_rng(n)
    shuffled = random.permutation(n)
    blocks = wavelet.build(shuffled.astype(permutation.rank_type(n)))
    edges = np.array([0, 1, n // 2, n - 1, n]).clip(0)
    ends = np.concatenate((edges, random.integers(0, n + 1, 40)))
    a0, b0, a1, b1 = (random.permutation(ends) for _ in range(4))
    a0, b0, a1, b1 = np.minimum(a0, b0), np.maximum(a0, b0), np.minimum(a1, b1), np.maximum(a1, b1)
    counts = wavelet.rectangle_counts(blocks, n, a0, b0, a1, b1)
    for q in range(len(ends)):
        inside = shuffled[a0[q] : b0[q]]
        assert counts[q] == np.sum((inside >= a1[q]) & (inside < b1[q]))


@given(case=cases())
def test_two_predicates_are_a_rectangle(case):
    ops, stored, probes = case
    if len(ops) < 2 or not stored or Op.NE in ops[:2]:
        return
    orders, ends = [], []
    for p in (0, 1):
        codes, order = permutation.sort_column(column(stored, p))
        orders.append(order)
        ends.extend(rank_intervals(sorted_keys(codes), *bounds(ops[p], Domain.INTEGER, WIDTH, column(probes, p))))
    counts = wavelet.rectangle_counts(wavelet.build(permutation.permutation(*orders)), len(stored), *ends)
    want = [len(matching([s[:2] for s in stored], p[:2], [o.name for o in ops[:2]], [WIDTH] * 2)) for p in probes]
    assert counts.tolist() == want


@pytest.mark.parametrize("n", [1, 64, 65, 255, 256, 257, 700, bitmaps.CHUNK_MAX])
@pytest.mark.parametrize("predicates", [1, 2, 3])
@pytest.mark.parametrize("limit", [None, 0, 3])
@pytest.mark.parametrize("shape", ["intervals", "rays", "complements"])
def test_bitmaps_hold_exactly_the_matches(n, predicates, limit, shape):
    random = np.random.default_rng([n, predicates])
    m = 50
    orders = [random.permutation(n).astype(np.uint16) for _ in range(predicates)]
    ends = [np.sort(random.choice([0, n, *random.integers(0, n + 1, 20)], (2, m)), axis=0) for _ in orders]
    if shape == "rays":
        for a, b in ends:
            a[::2], b[1::2] = 0, n
    complement = [shape == "complements" and p % 2 == 1 for p in range(predicates)]
    matched = bitmaps.Predicates(
        [bitmaps.build(o) for o in orders],
        orders,
        [np.argsort(o).astype(np.uint16) for o in orders],
        [e[0] for e in ends],
        [e[1] for e in ends],
        complement,
    )
    visit = bitmaps.in_parts(matched, np.argsort(ends[0][1]))
    words = np.empty((m, (n + 63) // 64), np.uint64)
    words[visit] = bitmaps.match_bitmaps(matched, visit)
    counts, begins, taken, places = bitmaps.collect(matched, visit, np.full(m, n if limit is None else limit))
    for q in range(m):
        want = np.ones(n, bool)
        for order, (a, b), inverted in zip(orders, ends, complement, strict=True):
            inside = np.zeros(n, bool)
            inside[order[a[q] : b[q]]] = True
            want &= inside ^ inverted
        found = np.flatnonzero(want)
        assert np.unpackbits(words[q].view(np.uint8), bitorder="little", count=n).tolist() == want.tolist()
        assert counts[q] == len(found)
        assert places[begins[q] : begins[q] + taken[q]].tolist() == found[:limit].tolist()


def test_prefix_bitmaps_of_a_chunk_take_at_most_32_bytes_a_tuple():
    order = np.arange(bitmaps.CHUNK_MAX, dtype=np.uint32).astype(np.uint16)
    assert bitmaps.build(order).nbytes <= 33 * bitmaps.CHUNK_MAX
