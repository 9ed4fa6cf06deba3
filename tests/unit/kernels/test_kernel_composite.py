from bisect import bisect_left, bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.kernels import intervals16
from spojoin.kernels.composite import Nested, grouped, nest, nested_ranks, refined
from spojoin.kernels.permutation import sort_column

LEAST, GREATEST = -(2**63), 2**63 - 1
codes = st.one_of(st.integers(-2, 2), st.sampled_from([LEAST, LEAST + 1, GREATEST - 1, GREATEST]))


@given(rows=st.lists(st.tuples(codes, codes, codes), max_size=60))
def test_members_are_ordered_by_several_columns_and_grouped_by_all_but_the_last(rows):
    columns = [sort_column(np.array([row[i] for row in rows], np.int64)) for i in range(3)]
    grouping = grouped(*columns[0])
    for length in (2, 3):
        nested, order = nest(grouping, *columns[length - 1])
        want = sorted(range(len(rows)), key=lambda j: (rows[j][:length], j))
        assert order.tolist() == want
        assert nested.tolist() == [rows[j][length - 1] for j in want]
        grouping = refined(grouping.starts, nested, order)
        keys = sorted({row[:length] for row in rows})
        assert [keys[g] for g in grouping.group] == [row[:length] for row in rows]
        assert grouping.starts.tolist() == [bisect_left(sorted(r[:length] for r in rows), k) for k in keys] + [
            len(rows)
        ]


@given(groups=st.lists(st.tuples(st.lists(codes, max_size=20), st.lists(codes, max_size=20)), max_size=12))
def test_values_are_searched_within_their_group_alone(groups):
    """All groups' codes stand in one column, so that a search that leaves its group finds others' codes."""
    stored, wanted = [sorted(s) for s, _ in groups], [sorted(w) for _, w in groups]
    ends = np.cumsum([len(s) for s in stored], dtype=np.int64)
    begins = ends - [len(s) for s in stored]
    column = np.array([code for s in stored for code in s], np.int64)
    values = np.array([code for w in wanted for code in w], np.int64)
    starts = np.cumsum([0, *(len(w) for w in wanted)], dtype=np.int64)
    places = np.random.default_rng(len(values)).permutation(len(values))
    below, upto = nested_ranks(column, begins, ends, Nested(starts, values, places))
    at = [(begin, s, code) for begin, s, w in zip(begins, stored, wanted, strict=True) for code in w]
    assert below[places].tolist() == [begin + bisect_left(s, code) for begin, s, code in at]
    assert upto[places].tolist() == [begin + bisect_right(s, code) for begin, s, code in at]


@pytest.mark.parametrize("groups", [1, 7, 900])
def test_many_values_are_searched_in_groups_of_any_size(groups):
    random = np.random.default_rng(groups)
    sizes = random.integers(0, 60, groups)
    sizes[groups // 2] = 20_000
    ends = np.cumsum(sizes)
    stored = [np.sort(random.integers(0, 500, size)) for size in sizes]
    wanted = [np.sort(random.integers(-1, 502, random.integers(0, 30))) for _ in sizes]
    starts = np.cumsum([0, *(len(w) for w in wanted)])
    found = Nested(starts, np.concatenate(wanted), np.arange(starts[-1]))
    below, upto = nested_ranks(np.concatenate(stored), ends - sizes, ends, found)
    for g in range(groups):
        here, begin = slice(starts[g], starts[g + 1]), ends[g] - sizes[g]
        assert (below[here] - begin).tolist() == np.searchsorted(stored[g], wanted[g]).tolist()
        assert (upto[here] - begin).tolist() == np.searchsorted(stored[g], wanted[g], "right").tolist()


@pytest.mark.parametrize("n", [130, 5000, intervals16.STORED_MAX])
def test_rare_predicates_are_counted_from_their_candidates(n):
    """Most probes have a rare predicate, some none; some complements admit nothing, and go round all ranks."""
    random = np.random.default_rng(n)
    orders = [random.permutation(n).astype(np.uint16) for _ in range(3)]
    ranks = [np.argsort(order).astype(np.uint16) for order in orders]
    a = random.integers(0, n + 1, (3, 300))
    b = np.minimum(a + random.integers(0, 4, (3, 300)), n)
    b[0, 200:], b[1] = np.maximum(a[0, 200:], n), n
    a[2, :60], b[2, :60] = 0, n
    columns = [intervals16.wrapped_intervals(a[p], b[p], n, p == 2) for p in range(3)]
    lo = random.integers(0, n, 300)
    hi = random.integers(lo, n + 1)
    found = intervals16.and_counts(ranks, [c[0] for c in columns], [c[1] for c in columns], lo, hi)
    for q in range(300):
        holds = np.ones(hi[q] - lo[q], bool)
        for p in range(3):
            rank = ranks[p][lo[q] : hi[q]]
            holds &= ((a[p, q] <= rank) & (rank < b[p, q])) != (p == 2)
        assert found[q] == holds.sum()
