"""Counts that end once they are enough, in whole nodes and cut ones, against the plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.index import evaluation
from spojoin.index.assembly import Taking
from spojoin.index.counts import WholeCounts
from spojoin.index.stream_index import StreamIndex
from spojoin.model import Direction, Domain, Op, Output, RolePredicate
from spojoin.wire.records import NO_GROUP
from tests.support.batches import SLOTS, batch_of
from tests.support.drawn_predicates import PREDICATES
from tests.support.naive_index import NaiveWindow

GROUP_OF = (lambda batch: batch, lambda _: NO_GROUP, lambda batch: batch // 2)


@given(data=st.data(), predicates=PREDICATES, enough=st.integers(1, 3), group=st.sampled_from(GROUP_OF))
@settings(max_examples=200)
def test_counts_are_those_of_the_plain_loop_up_to_enough(data, predicates, enough, group):
    value = data.draw(st.sampled_from([st.integers(0, 1), st.integers(0, 9), st.integers(0, 200)]))
    rows = st.lists(st.tuples(*[value] * SLOTS), min_size=1, max_size=40)
    direction = Direction(0, 0, True, tuple(predicates))
    index = StreamIndex((direction,), Output.COUNT, None, True, taking=Taking(enough=enough))
    naive, first = NaiveWindow(), 0
    terms = [(p.op.name, p.width, p.probe_slot, p.target_slot) for p in predicates]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "SCAN_MAX", 2)
        patch.setattr(evaluation, "MASKED_MAX", 8)
        for batch_id, batch in enumerate(data.draw(st.lists(rows, min_size=1, max_size=6))):
            seqs = range(first, first + len(batch))
            index.add(batch_of(batch_id, first, batch, seqs, group(batch_id)))
            naive.add(first, batch, seqs)
            first += len(batch)
        probes = data.draw(st.lists(st.tuples(*[value] * SLOTS), min_size=1, max_size=30))
        lower = data.draw(st.lists(st.integers(0, first), min_size=len(probes), max_size=len(probes)))
        codes = tuple(np.array(column, np.int64) for column in zip(*probes, strict=True))
        (found,) = index.evaluate(codes, np.array(lower, np.int64))
    partners = [len(naive.partners(terms, probe, low)) for probe, low in zip(probes, lower, strict=True)]
    assert found.counts.tolist() == [min(each, enough) for each in partners]


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
