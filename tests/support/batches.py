"""Immutable batches as the permutation service makes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spojoin.wire.records import Batch, SortedColumn

#: Key columns of a tuple.
SLOTS = 3


def batch_of(batch_id: int, first: int, rows: Sequence[Sequence[int]], seqs: Sequence[int], group: int) -> Batch:
    """The batch of these tuples, whose indexes begin at `first`."""
    columns, orders = [], []
    for slot in range(SLOTS):
        codes = np.array([row[slot] for row in rows], np.int64)
        order = np.argsort(codes, kind="stable").astype(np.uint16)
        orders.append(order)
        columns.append(SortedColumn(slot, codes[order], order))
    permutations = {
        (a, b): np.argsort(orders[b]).astype(np.uint16)[orders[a]] for a in range(SLOTS) for b in range(SLOTS) if a != b
    }
    end = first + len(rows)
    return Batch(0, batch_id, first, end, group, tuple(columns), permutations, np.array(seqs, np.int64), None, None)
