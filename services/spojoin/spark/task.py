"""What one task does: the rows before its share fill the windows, those of the share answer, later ones are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from spojoin.embedded.engine import Engine
from spojoin.embedded.run import sizes_for
from spojoin.errors import BadData
from spojoin.model import Query
from spojoin.protocol.answered import NEVER
from spojoin.protocol.generations import Beginning
from spojoin.spark.blocks import HistoryBlocks
from spojoin.spark.closed_here import ClosedHere
from spojoin.spark.shares import HistoryShare
from spojoin.wire.records import SourcePosition


@dataclass(frozen=True, slots=True)
class ShareWork:
    """A share of a history as its task has to know it.

    beginning: where numbers begin, and which rows answer; reads: how many rows with a number it reads
    closed: which of the rows answer where they do as they close, both sides'; None for all
    """

    beginning: Beginning
    reads: int
    closed: ClosedHere | None = None

    @classmethod
    def of(cls, blocks: HistoryBlocks, share: HistoryShare, ahead: int = 0) -> ShareWork:
        """What the counts of blocks say of a share; ahead: rows of a table, numbered before all others."""
        numbered = blocks.numbered_before
        positions = blocks.rows_before[share.first].tolist()
        beginning = Beginning(
            starts={(number, 0): SourcePosition(place, 0, NEVER) for number, place in enumerate(positions)},
            first_indexes=tuple(blocks.members_before[share.first].tolist()),
            first_seq=int(numbered[share.first]),
            own=range(int(numbered[share.begin]) + ahead, min(int(numbered[share.end]), blocks.own) + ahead),
        )
        return cls(beginning, int(numbered[share.last] - numbered[share.first]), share.closed)


#: Rows of each input in a block, None where it has none.
BlockRows = tuple[pa.RecordBatch | None, ...]


def answered(
    query: Query, work: ShareWork, blocks: Iterable[BlockRows], table: pa.RecordBatch | None = None
) -> Iterator[pa.RecordBatch]:
    """The results of a share's rows, in order.

    blocks: those that the task reads, in order; table: all rows of the query's table, where it has one

    Raises BadData where the rows are others than those that were counted.
    """
    own = None if work.closed is None else work.closed.watched()
    engine = Engine(query, sizes_for(1), own, accounts=False, beginning=work.beginning)
    with closing(engine):
        if table is not None:
            yield from engine.load(table, f"table {query.inputs[-1].name}")
        for block in blocks:
            for number, rows in enumerate(block):
                if rows is not None:
                    yield from engine.feed(number, rows)
        for number, stream in enumerate(query.inputs):
            if stream.table is None:
                yield from engine.end(number)
        yield from engine.finish()
        if table is None:  # whose rows would be counted as well
            _check(engine, work)


def _check(engine: Engine, work: ShareWork) -> None:
    if engine.tuples != work.reads:
        raise BadData(
            f"{engine.tuples:,} rows came where {work.reads:,} had been counted: the source gives other rows each time "
            "it is read; write it to a table first, or cache it"
        )
