"""An index and the plain loop over the same tuples, and what Hypothesis draws for both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import strategies as st

from spojoin.index import evaluation
from spojoin.index.stream_index import StreamIndex
from spojoin.model import Direction, Domain, Op, Output, RolePredicate
from tests.support.batches import SLOTS, batch_of
from tests.support.nested_loop import NaiveWindow

_SLOT = st.integers(0, SLOTS - 1)
LARGE = ["LT GT", "LE", "GE NE", "BAND_LE BAND_LT", "EQ LT GT", "EQ NE", "EQ", "LT GT LE"]


def predicates(ops: object = Op) -> st.SearchStrategy[RolePredicate]:
    return st.builds(RolePredicate, st.sampled_from(ops), _SLOT, _SLOT, st.just(Domain.INTEGER), st.integers(0, 2))


#: One to four predicates of a direction, over any columns.
PREDICATES = st.lists(predicates(), min_size=1, max_size=4)
VALUES = st.sampled_from([st.integers(0, 1), st.integers(0, 4), st.integers(0, 50)])


def on_slots(names: str, width: int) -> list[RolePredicate]:
    """Predicates by the names of their operators, each on the next column."""
    return [RolePredicate(Op[name], s, s, Domain.INTEGER, width) for s, name in enumerate(names.split())]


def drawn_batches(data: st.DataObject, value: object, most: int = 90) -> list[list[tuple[int, ...]]]:
    rows = st.lists(st.tuples(*[value] * SLOTS), min_size=1, max_size=most)
    return data.draw(st.lists(rows, min_size=1, max_size=6))


@contextmanager
def small_nodes() -> Iterator[None]:
    """Takes the paths of large nodes at sizes that the plain loop can check."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "SCAN_MAX", 2)
        patch.setattr(evaluation, "MASKED_MAX", 8)
        yield


class IndexBesideLoop:
    """Directions of a self join, whose tuples come in batches; size: how many came."""

    def __init__(self, *conjunctions: Sequence[RolePredicate], **options: object) -> None:
        directions = (Direction(0, 0, side == 0, tuple(each)) for side, each in enumerate(conjunctions))
        self.index = StreamIndex(tuple(directions), Output.COUNT, None, True, **options)
        self.size = self._batches = 0
        self._naive = NaiveWindow()

    def add(self, rows: Sequence[Sequence[int]], *more: object, group: int = -1, **options: object) -> None:
        seqs = range(self.size, self.size + len(rows))
        self.index.add(batch_of(self._batches, self.size, rows, seqs, group), *more, **options)
        self._naive.add(self.size, rows, seqs)
        self.size, self._batches = self.size + len(rows), self._batches + 1

    def asked(self, probes: Sequence[Sequence[int]], lower: Sequence[int]) -> list[tuple[object, list[list[int]]]]:
        """By direction what the index finds, and each probe's partners by the plain loop."""
        columns = tuple(np.array(column, np.int64) for column in zip(*probes, strict=True))
        bounds = lower * len(probes) if len(lower) == 1 else lower
        found = self.index.evaluate(columns, np.array(lower, np.int64))
        return [
            (each, [self._naive.partners(d.predicates, *asked) for asked in zip(probes, bounds, strict=True)])
            for d, each in zip(self.index.directions, found, strict=True)
        ]

    def ask_drawn(self, data: st.DataObject, value: object) -> list[tuple[object, list[list[int]]]]:
        probes = data.draw(st.lists(st.tuples(*[value] * SLOTS), min_size=1, max_size=9))
        columns = st.lists(st.integers(0, self.size), min_size=len(probes), max_size=len(probes))
        return self.asked(probes, data.draw(st.one_of(st.just([0]), columns)))
