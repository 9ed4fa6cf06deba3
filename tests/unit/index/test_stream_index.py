import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.index import evaluation
from spojoin.index.stream_index import StreamIndex
from spojoin.model import Direction, Output
from tests.support.batches import SLOTS, batch_of
from tests.support.index_beside_loop import PREDICATES
from tests.support.nested_loop import NaiveWindow


@st.composite
def streams(draw):
    """A worker's batches (with gaps where others own the rest), with growing seqs, in groups or not."""
    value = st.integers(0, draw(st.sampled_from([1, 4, 50])))
    of_group, gaps = draw(st.sampled_from([0, 1, 2, 5])), draw(st.booleans())
    count, size_max = draw(st.integers(1, 14)), draw(st.sampled_from([1, 5, 40]))
    seed = draw(st.integers(0, 2**32))
    random = np.random.default_rng(seed)
    top = draw(value) + 1
    batches, first, seq = [], 0, 0
    for batch_id in range(count):
        size = int(random.integers(1, size_max + 1))
        rows = random.integers(0, top, (size, SLOTS)).tolist()
        seqs = (seq + np.cumsum(random.integers(1, 4, size))).tolist()
        batches.append((batch_id, first, rows, seqs, batch_id // of_group if of_group else -1))
        seq = seqs[-1]
        first += size + (int(random.integers(0, 9)) if gaps else 0)
    return batches, first


def check(index, direction, matches, naive, probes, lower):
    bounds = lower * len(probes) if len(lower) == 1 else lower
    want = [naive.partners(direction.predicates, probe, low) for probe, low in zip(probes, bounds, strict=True)]
    assert matches.counts.tolist() == [len(w) for w in want]
    if index.output is Output.COUNT:
        assert matches.offsets is None
        assert matches.partners is None
        return
    cut = [w[: index.limit] for w in want]
    assert np.diff(matches.offsets).tolist() == [len(w) for w in cut]
    assert matches.partners.tolist() == [seq for w in cut for seq in w]


@st.composite
def indexes(draw):
    """An empty index for two directions of one to four predicates each."""
    directions = tuple(Direction(0, 0, as_left, tuple(draw(PREDICATES))) for as_left in (True, False))
    limit = draw(st.one_of(st.none(), st.integers(0, 7)))
    return StreamIndex(directions, draw(st.sampled_from(Output)), limit, draw(st.booleans()))


@given(index=indexes(), stream=streams(), data=st.data(), small=st.booleans())
def test_an_index_answers_as_the_plain_loop(index, stream, data, small):
    batches, last = stream
    naive = NaiveWindow()
    again = data.draw(st.lists(st.sampled_from(batches), max_size=3))
    arrivals = data.draw(st.one_of(st.just([*batches, *again]), st.permutations([*batches, *again])))
    with pytest.MonkeyPatch.context() as patch:
        if small:  # forces the paths of large nodes at sizes that the plain loop can check
            patch.setattr(evaluation, "SCAN_MAX", 4)
            patch.setattr(evaluation, "MASKED_MAX", 8)
        for batch_id, first, rows, seqs, group in arrivals:
            index.add(batch_of(batch_id, first, rows, seqs, group))
            naive.add(first, rows, seqs)
            if data.draw(st.integers(0, 3)) == 0:
                ask(index, naive, data, last)
        ask(index, naive, data, last)


def ask(index, naive, data, last):
    value = st.integers(-1, 6)
    probes = data.draw(st.lists(st.tuples(*[value] * SLOTS), max_size=5))
    bound = st.integers(-3, last + 2)
    columns = st.lists(bound, min_size=max(len(probes), 1), max_size=max(len(probes), 1))
    lower = data.draw(st.one_of(bound.map(lambda b: [b]), columns))
    floor = naive.expired
    if data.draw(st.booleans()):
        floor = naive.expired = max(floor, data.draw(bound))
        index.expire(floor)
    lower = [max(low, floor) for low in lower]
    codes = tuple(np.array([p[s] for p in probes], np.int64) for s in range(SLOTS))
    for direction, matches in zip(index.directions, index.evaluate(codes, np.array(lower, np.int64)), strict=True):
        check(index, direction, matches, naive, probes, lower)
