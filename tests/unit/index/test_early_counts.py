"""Counts that end once they are enough, in whole nodes and cut ones, against the plain loop."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spojoin.index import evaluation
from spojoin.index.assembly import Taking
from spojoin.index.counts import WholeCounts
from spojoin.index.stream_index import StreamIndex
from spojoin.model import Direction, Domain, Op, Output, RolePredicate
from spojoin.wire.records import NO_GROUP
from tests.support.batches import SLOTS, batch_of
from tests.support.index_beside_loop import PREDICATES, IndexBesideLoop, drawn_batches, small_nodes

GROUP_OF = (lambda batch: batch, lambda _: NO_GROUP, lambda batch: batch // 2)


@given(data=st.data(), predicates=PREDICATES, enough=st.integers(1, 3), group=st.sampled_from(GROUP_OF))
def test_counts_are_those_of_the_plain_loop_up_to_enough(data, predicates, enough, group):
    value = data.draw(st.sampled_from([st.integers(0, 1), st.integers(0, 9), st.integers(0, 200)]))
    both = IndexBesideLoop(predicates, taking=Taking(enough=enough))
    with small_nodes():
        for batch_id, batch in enumerate(drawn_batches(data, value, 40)):
            both.add(batch, group=group(batch_id))
        ((found, partners),) = both.ask_drawn(data, value)
    assert found.counts.tolist() == [min(len(some), enough) for some in partners]


def test_a_probe_that_has_enough_is_searched_no_more(monkeypatch):
    searched = []
    among = WholeCounts.among

    def noted(self, nodes, probes, m, runner):
        searched.append(([node.size for node in nodes], m))
        return among(self, nodes, probes, m, runner)

    monkeypatch.setattr(WholeCounts, "among", noted)
    monkeypatch.setattr(evaluation, "SCAN_MAX", 2)
    predicate = RolePredicate(Op.GT, 0, 0, Domain.INTEGER, 0)
    index = StreamIndex((Direction(0, 0, True, (predicate,)),), Output.COUNT, None, True, taking=Taking(enough=1))
    first = 0
    for batch_id, size in enumerate((50, 30, 30, 20, 10)):
        index.add(batch_of(batch_id, first, [(5,) * SLOTS] * size, range(first, first + size), batch_id))
        first += size
    sizes = sorted(node.size for node in index._nodes)
    codes = tuple(np.array([1, 1, 1, 9], np.int64) for _ in range(SLOTS))
    (found,) = index.evaluate(codes, np.array([0]))
    assert found.counts.tolist() == [1, 1, 1, 0]
    assert searched == [(sizes[:1], 4), (sizes[-1:], 1), (sizes[1:-1], 1)][: len(sizes)]
