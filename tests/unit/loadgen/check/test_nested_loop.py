"""The checker's loop against a plainer one: pure Python, tuple by tuple, on tiny tie-dense domains."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.check import nested_loop
from loadgen.check.nested_loop import NestedLoop, Tuples
from loadgen.window import window_begin, window_of
from spojoin.model import Column, Domain, KeyColumn, Op, Order, Predicate, Query, RowOrder, Stream
from spojoin.windows import IntervalWindow, RowWindow, TimeWindow
from tests.support.nested_loop import holds


def make_query(streams, ops, window, domain=Domain.INTEGER, width=1):
    keys = (KeyColumn(Column("a"), domain, 0, "a"), KeyColumn(Column("b"), domain, 0, "b"))
    predicates = tuple(
        Predicate(op, k % 2, k % 2, domain, width if op in (Op.BAND_LT, Op.BAND_LE) else 0, "")
        for k, op in enumerate(ops)
    )
    made = tuple(Stream(f"s{i}", {}, None, None, keys) for i in range(streams))
    order = Order.EVENT_TIME if window.needs_time else Order.ARRIVAL
    return Query("q", made, predicates, window, "", RowOrder(order))


def plain_pairs(query, rows, times):
    """The definition, for tuples that may stand in both streams and have NULLs: (probe, left, right) in order.

    rows: (stands left, stands right), a or None, b or None of each tuple
    """
    window, sides = query.window, ([], [])
    for t, (stands, _, _) in enumerate(rows):
        if window.needs_time:
            bound = window_begin(times[t], window.length, window.slide)
            inside = [[u for u in side if times[u] >= bound] for side in sides]
        else:
            inside = [side[window_of(len(side), window.length, window.slide)] for side in sides]
        found = [(t, u, t) for u in inside[0]] if stands[1] else []
        found += [(t, t, u) for u in inside[1]] if stands[0] else []
        for probe, left, right in found:
            compared = [(p, rows[left][1 + p.left_slot], rows[right][1 + p.right_slot]) for p in query.predicates]
            if all(None not in (a, b) and holds(p.op.name, p.width, a, b) for p, a, b in compared):
                yield probe, left, right
        for side, stood in zip(sides, stands, strict=True):
            if stood:
                side.append(t)


@st.composite
def cases(draw):
    streams = draw(st.integers(1, 2))
    n = draw(st.integers(0, 40))
    slide = draw(st.integers(1, 4))
    window = draw(st.sampled_from((RowWindow, TimeWindow)))(slide * draw(st.integers(1, 5)), slide)
    ops = draw(st.lists(st.sampled_from(list(Op)), min_size=1, max_size=3))
    stream = draw(st.lists(st.integers(0, streams - 1), min_size=n, max_size=n))
    values = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=n, max_size=n))
    times = sorted(draw(st.lists(st.integers(0, 30), min_size=n, max_size=n)))
    return make_query(streams, ops, window), stream, values, times


def as_tuples(query, stream, values, times, dtype=np.int64):
    columns = tuple(
        tuple(np.array([v[slot] for v, s in zip(values, stream, strict=True) if s == number], dtype) for slot in (0, 1))
        for number in range(len(query.streams))
    )
    return Tuples(np.array(stream, np.int8), columns, np.array(times, np.int64))


def check(query, stream, values, times, dtype=np.int64):
    loop = NestedLoop(query, as_tuples(query, stream, values, times, dtype))
    last = len(query.streams) - 1
    rows = [((s == 0, s == last), *v) for s, v in zip(stream, values, strict=True)]
    expected = list(plain_pairs(query, rows, times))
    for number, direction in enumerate(nested_loop.directions(query)):
        seqs = loop.seqs[direction.probe]
        probes = np.arange(len(seqs))
        want = [(t, pair[1 - number]) for t, *pair in expected if pair[number] == t]
        counts = [sum(t == seq for t, _ in want) for seq in seqs]
        assert loop.counts(number, probes).tolist() == counts
        assert list(zip(*(each.tolist() for each in loop.pairs(number, probes)), strict=True)) == want
        assert loop.counts(number, probes[::3]).tolist() == counts[::3]


@given(cases())
def test_equals_the_plain_loop(case):
    check(*case)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 2)), max_size=30), st.data())
@settings(max_examples=60, deadline=None)
def test_an_interval_join_equals_its_definition(rows, data):
    lower, upper = -data.draw(st.integers(0, 5)), data.draw(st.integers(0, 5))
    query = make_query(2, [Op.EQ], IntervalWindow(lower, upper))
    times = np.cumsum([step for _, _, step in rows]).tolist()
    stream, keys = [s for s, _, _ in rows], [key for _, key, _ in rows]
    loop = NestedLoop(query, as_tuples(query, stream, [(key, 0) for key in keys], times))
    found = set()
    for number, direction in enumerate(nested_loop.directions(query)):
        probe, partner = loop.pairs(number, np.arange(len(loop.seqs[direction.probe])))
        pairs = zip(probe.tolist(), partner.tolist(), strict=True)
        found |= {(t, u) if number == 0 else (u, t) for t, u in pairs}
    left, right = ([i for i, own in enumerate(stream) if own == side] for side in (0, 1))
    assert found == {
        (a, b) for a in left for b in right if keys[a] == keys[b] and lower <= times[b] - times[a] <= upper
    }


@pytest.mark.parametrize("op", [Op.BAND_LT, Op.BAND_LE, Op.LT, Op.GE])
def test_integers_at_the_ends_of_their_range(op):
    ends = [-(2**63), -(2**63) + 1, -1, 0, 2**63 - 2, 2**63 - 1]
    query = make_query(1, [op], RowWindow(10, 1), width=2**63 - 1)
    check(query, [0] * len(ends), [(v, v) for v in ends], [0] * len(ends))


def test_bands_over_doubles_follow_ieee_arithmetic():
    query = make_query(1, [Op.BAND_LE], RowWindow(10, 1), Domain.FLOAT, 0.1)
    values = [0.1, 0.2, 0.30000000000000004, float("inf"), float("inf"), -float("inf"), -0.0, 0.1]
    assert Fraction(0.30000000000000004 - 0.2) != Fraction(1, 10)
    check(query, [0] * len(values), [(v, v) for v in values], [0] * len(values), np.float64)


@st.composite
def tuples_of_both_streams(draw):
    """(query, rows as (stands left, stands right, a or None, b or None)): every row stands on one side at least."""
    slide = draw(st.integers(1, 4))
    window = RowWindow(slide * draw(st.integers(1, 4)), slide)
    ops = draw(st.lists(st.sampled_from(list(Op)), min_size=1, max_size=3))
    value = st.one_of(st.none(), st.integers(0, 3))
    side = st.sampled_from([(True, False), (False, True), (True, True)])
    return make_query(2, ops, window), draw(st.lists(st.tuples(side, value, value), max_size=30))


@given(tuples_of_both_streams())
def test_tuples_of_both_streams_and_nulls_equal_the_plain_loop(case):
    query, rows = case
    own = [[row for row in rows if row[0][side]] for side in (0, 1)]
    values = tuple(tuple(np.array([row[k] or 0 for row in held], np.int64) for k in (1, 2)) for held in own)
    nulls = tuple(tuple(np.array([row[k] is None for row in held], np.bool_) for k in (1, 2)) for held in own)
    members = tuple(np.array([row[0][side] for row in rows], np.bool_) for side in (0, 1))
    loop = NestedLoop(query, Tuples(np.zeros(len(rows), np.int8), values, None, nulls, members))
    found = []
    for number, direction in enumerate(nested_loop.directions(query)):
        probes, partners = loop.pairs(number, np.arange(len(loop.seqs[direction.probe])))
        pairs = zip(probes.tolist(), partners.tolist(), strict=True)
        found += [(probe, probe, partner) if number == 0 else (probe, partner, probe) for probe, partner in pairs]
    assert sorted(found) == sorted(plain_pairs(query, rows, None))
