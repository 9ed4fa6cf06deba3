"""Within `below`, an index answers as one that got no later batch; behind it, as before."""

from __future__ import annotations

import numpy as np
import pytest

from spojoin.index.stream_index import StreamIndex
from spojoin.model import Direction, Domain, Op, Output, RolePredicate
from tests.support.batches import SLOTS, batch_of

ROLE = Direction(
    0, 0, True, (RolePredicate(Op.LT, 0, 0, Domain.INTEGER, 0), RolePredicate(Op.GE, 1, 1, Domain.INTEGER, 0))
)
SIZE = 3
RANDOM = np.random.default_rng(1)
ROWS = RANDOM.integers(0, 9, (60, SIZE, SLOTS)).tolist()
PROBES = tuple(np.arange(10, dtype=np.int64) for _ in range(SLOTS))


def filled(first, end, output, of_group):
    index = StreamIndex((ROLE,), output, None, True)
    for number in range(first, end):
        at = number * SIZE
        group = number // of_group if of_group else -1
        index.add(batch_of(number, at, ROWS[number], range(at, at + SIZE), group))
    return index


def answers(index, lower):
    """As one search, and as a search that is asked first if the index lists its partners."""
    low = np.array([lower], np.int64)
    asked = index.ask(PROBES, low)
    both = [index.evaluate(PROBES, low), *([] if asked is None else [asked.matches(0, 10)])]
    return [(found.counts.tolist(), None if found.partners is None else found.partners.tolist()) for (found,) in both]


@pytest.mark.parametrize("output", [Output.COUNT, Output.PAIRS])
@pytest.mark.parametrize("of_group", [0, 1, 5])
@pytest.mark.parametrize("end", [1, 7, 16, 31, 60])
@pytest.mark.parametrize("lower", [0, 17])
def test_later_batches_are_not_seen(output, of_group, end, lower):
    index = filled(0, 60, output, of_group)
    before = answers(index, lower)[0]
    with index.below(end * SIZE):
        found = answers(index, lower)
    alone = answers(filled(0, end, output, of_group), lower)
    assert all(each == alone[0] for each in found)
    assert answers(index, lower)[0] == before
    assert index.tuples == 60 * SIZE


def test_batches_that_wait_to_expire_are_not_searched_beside_those_in_the_window():
    index, lower = filled(0, 60, Output.PAIRS, 1), 12 * SIZE
    found = answers(index, lower)
    index.expire(lower)
    assert all(each == answers(index, lower)[0] for each in found)


def test_the_index_grows_on_behind_a_late_answer():
    index = filled(0, 40, Output.COUNT, 0)
    for end in range(20, 40, 3):
        with index.below(end * SIZE):
            answers(index, 0)
    for number in range(40, 60):
        index.add(batch_of(number, number * SIZE, ROWS[number], range(number * SIZE, (number + 1) * SIZE), -1))
    assert answers(index, 0) == answers(filled(0, 60, Output.COUNT, 0), 0)
    assert index.nodes <= 2 * filled(0, 60, Output.COUNT, 0).nodes + 12
