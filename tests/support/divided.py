"""Answers a query over a history in drawn blocks and shares, as Spark's tasks do, but in this process."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pyarrow as pa

from spojoin.model import Query
from spojoin.spark.gather import RowCounter, blocks_of
from spojoin.spark.shares import Division, ShareLimits
from spojoin.spark.task import ShareWork, answer_share

#: A row's input, and its position there.
Place = tuple[int, int]


def divided(
    query: Query, tables: Sequence[pa.Table], order: Sequence[Place], rng: Random, own: int | None = None
) -> list[pa.RecordBatch]:
    """The results over the rows of `tables` in an order; own: how many rows answer, if not all do."""
    blocks = cut(order, lambda: rng.choice((1, 2, 5, 30)))
    rows = [tuple(_taken(table, block, number) for number, table in enumerate(tables)) for block in blocks]
    counter = RowCounter(query)
    known = blocks_of([counter.count(block) for block in rows], [100] * len(rows), query)
    if own is not None:
        known = replace(known, own=min(own, known.own))
    limits = ShareLimits(rng.choice((1, 7, 40)), rng.random() < 0.3, 1 << 60, 0)
    found: list[pa.RecordBatch] = []
    for share in Division(query, known, limits).shares():
        found += answer_share(query, ShareWork.of(known, share), rows[share.first : share.last])
    return found


def cut(order: Sequence[Place], size: Callable[[], int]) -> list[Sequence[Place]]:
    """The order in pieces."""
    found, begin = [], 0
    while begin < len(order):
        end = begin + size()
        found.append(order[begin:end])
        begin = end
    return found


def _taken(table: pa.Table, block: Sequence[Place], number: int) -> pa.RecordBatch | None:
    rows = [position for stream, position in block if stream == number]
    return table.take(pa.array(rows, pa.int64())).combine_chunks().to_batches()[0] if rows else None
