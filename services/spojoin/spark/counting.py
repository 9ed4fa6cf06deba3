"""Counts the rows of a block: which take a number, and in which streams they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from spojoin.model import Query
from spojoin.query.extract import Extracted, Extractor
from spojoin.spark.blocks import NO_TIME, HistoryBlocks
from spojoin.spark.task import BlockRows
from spojoin.spark.until import Until


@dataclass(slots=True)
class BlockCount:
    """What a block holds, as `HistoryBlocks` has it of many.

    own: of the rows with a number, those before `until`; refused: rows that can't take part, by reason
    """

    rows: list[int]
    members: list[int]
    numbered: int = 0
    own: int = 0
    first_us: int = NO_TIME
    last_us: int = -NO_TIME
    refused: Counter[str] = field(default_factory=Counter)


class RowCounter:
    """Counts blocks of one query's history; until: the place before which rows answer."""

    def __init__(self, query: Query, until: Until | None = None) -> None:
        self._query = query
        self._until = until
        self._extractors = [Extractor(stream, query.needs_time, n) for n, stream in enumerate(query.inputs)]

    def count(self, block: BlockRows, key: pa.Array | None = None) -> BlockCount:
        """What a block holds; key: the order column of its rows (n,), by which `until` may divide them."""
        ahead = None if self._until is None or key is None else self._until.rows_before(key)
        found = BlockCount([0] * len(self._query.inputs), [0] * len(self._query.streams))
        for number, rows in enumerate(block):
            if rows is not None:
                found.rows[number] = rows.num_rows
                self._add(found, number, self._extractors[number](rows), ahead)
        return found

    def _add(self, count: BlockCount, number: int, rows: Extracted, ahead: int | None) -> None:
        count.refused.update(each.reason for each in rows.refused)
        members = rows.members
        for stream, source in enumerate(self._query.fed_by):
            if source == number:
                count.members[stream] += (
                    len(rows.kept) if members is None else int(np.count_nonzero(members >> stream & 1))
                )
        is_numbered = np.ones(len(rows.kept), np.bool_) if members is None else members != 0
        count.numbered += int(np.count_nonzero(is_numbered))
        answers = is_numbered if self._until is None else is_numbered & self._until.before(rows, ahead)
        count.own += int(np.count_nonzero(answers))
        if rows.times_us is not None and len(rows.kept):
            count.first_us = min(count.first_us, int(rows.times_us.min()))
            count.last_us = max(count.last_us, int(rows.times_us.max()))


def blocks_of(counts: Sequence[BlockCount], sizes: Sequence[int], query: Query) -> HistoryBlocks:
    """What blocks hold together, in their order; sizes: bytes of each."""
    times = np.array([(each.first_us, each.last_us) for each in counts], np.int64).reshape(-1, 2)
    return HistoryBlocks(
        np.array([each.rows for each in counts], np.int64).reshape(-1, len(query.inputs)),
        np.array([each.members for each in counts], np.int64).reshape(-1, len(query.streams)),
        np.array([each.numbered for each in counts], np.int64),
        np.array(sizes, np.int64),
        # A block without any time has the place that its neighbours leave.
        np.minimum.accumulate(times[::-1, 0])[::-1],
        np.maximum.accumulate(times[:, 1]),
        sum(each.own for each in counts),
    )
