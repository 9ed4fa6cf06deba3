"""An index follows its window: tuples that no window reaches any more are a small part of what it holds."""

from __future__ import annotations

import pytest

from spojoin.index.merging import BEHIND_ONE_IN
from spojoin.index.stream_index import StreamIndex
from spojoin.model import Direction, Domain, Op, Output, RolePredicate
from tests.support.batches import SLOTS, batch_of

ROLE = Direction(0, 0, True, (RolePredicate(Op.LT, 0, 0, Domain.INTEGER, 0),))


def add(index, number, size):
    first = number * size
    index.add(batch_of(number, first, [(i % 7,) * SLOTS for i in range(size)], range(first, first + size), -1))


@pytest.mark.parametrize("window", [5, 60, 100, 1_000])
@pytest.mark.parametrize("size", [1, 4, 40])
@pytest.mark.parametrize("step", [1, 3])
def test_merged_batches_expire_soon_after_the_window_has_left_them(window, size, step):
    index = StreamIndex((ROLE,), Output.COUNT, None, True)
    for number in range(3 * window // size + 3):
        add(index, number, size)
        end = (number + 1) * size
        for lower in range(max(end - size - window, 0), max(end - window, 0), step):
            index.expire(lower)
            behind = index.tuples - (end - lower)
            assert behind < max(size, 1 + index.tuples / BEHIND_ONE_IN)


def test_a_single_batch_expires_as_a_whole():
    index = StreamIndex((ROLE,), Output.COUNT, None, True)
    add(index, 0, 40)
    index.expire(39)
    assert (index.tuples, index.work.merges) == (40, 0)
    index.expire(40)
    assert index.tuples == 0
