"""Which tuples are in batches, in whatever order and number these arrive."""

from __future__ import annotations

from itertools import permutations

import pytest

from spojoin.protocol.retention import BatchedTuples


@pytest.mark.parametrize("order", list(permutations([(0, 5), (5, 7), (7, 12)])))
def test_batches_count_up_to_the_first_gap(order):
    made = BatchedTuples()
    seen = set()
    for batch in order:
        seen.add(batch)
        made.add_batch(*batch)
        made.add_batch(*batch)
        end = next(first for first, _ in [(0, 5), (5, 7), (7, 12), (12, 0)] if not any(b[0] == first for b in seen))
        assert made.batched_to(0) == end


def test_batches_that_no_window_reaches_are_not_awaited():
    made = BatchedTuples()
    made.add_batch(0, 5)  # a stray copy of an old batch
    made.add_batch(15, 20)
    assert made.batched_to(0) == 5
    assert made.batched_to(12) == 12
    assert made.batched_to(16) == 20
    assert made.batched_to(3) == 20
