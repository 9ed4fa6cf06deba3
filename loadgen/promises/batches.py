"""Sealed batches as the permutation service ships them, made without services."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from loadgen.promises.data import I64
from spojoin.index.stream_index import StreamIndex
from spojoin.kernels.permutation import permutation, sort_column
from spojoin.model import Query
from spojoin.wire.records import Batch, SortedColumn


def batches(codes: tuple[I64, ...], group_tuples: int, batch_tuples: int) -> Iterator[Batch]:
    """Batches of at most `batch_tuples` that never cross a group's end; a group is a slide interval.

    codes: int64 (n,) by slot, in arrival order
    """
    firsts = [
        (first, min(first + batch_tuples, end))
        for begin in range(0, len(codes[0]), group_tuples)
        for end in [min(begin + group_tuples, len(codes[0]))]
        for first in range(begin, end, batch_tuples)
    ]
    for number, (first, end) in enumerate(firsts):
        yield _batch(number, first, first // group_tuples, tuple(column[first:end] for column in codes))


def filled(query: Query, codes: tuple[I64, ...], group_tuples: int, batch_tuples: int) -> StreamIndex:
    """A PO-Join worker's index of a self join that holds all tuples, each group merged as the worker merges it.

    A group is merged when a later one begins, so the tuple behind the last full group closes it.
    """
    index = StreamIndex(query.directions, query.output, query.limit, is_self=True)
    for batch in batches(codes, group_tuples, batch_tuples):
        index.add(batch)
    return index


def _batch(number: int, first: int, group: int, codes: tuple[I64, ...]) -> Batch:
    columns = tuple(SortedColumn(slot, *sort_column(column)) for slot, column in enumerate(codes))
    pairs = [(a, b) for a in range(len(codes)) for b in range(a + 1, len(codes))]
    end = first + len(codes[0])
    return Batch(
        stream=0,
        batch_id=number,
        first=first,
        end=end,
        group=group,
        columns=columns,
        permutations={(a, b): permutation(columns[a].order, columns[b].order) for a, b in pairs},
        seqs=np.arange(first, end),
        times_us=None,
        keys=None,
    )
