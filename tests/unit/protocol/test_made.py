"""Which tuples are in batches, in whatever order and number these arrive."""

from __future__ import annotations

from itertools import permutations

import pytest

from spojoin.protocol.made import MadeBatches


@pytest.mark.parametrize("order", list(permutations([(0, 5), (5, 7), (7, 12)])))
def test_batches_count_up_to_the_first_gap(order):
    made = MadeBatches()
    seen = set()
    for batch in order:
        seen.add(batch)
        made.add(*batch)
        made.add(*batch)
        end = next(first for first, _ in [(0, 5), (5, 7), (7, 12), (12, 0)] if not any(b[0] == first for b in seen))
        assert made.end(0) == end


def test_batches_that_no_window_reaches_are_not_awaited():
    made = MadeBatches()
    made.add(0, 5)  # a stray copy of an old batch
    made.add(15, 20)
    assert made.end(0) == 5
    assert made.end(12) == 12
    assert made.end(16) == 20
    assert made.end(3) == 20
