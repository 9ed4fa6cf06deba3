"""One task: rows before its share fill the windows, rows of the share are answered, later rows are only partners."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from zipimport import zipimporter

import pyarrow as pa
from pyspark import TaskContext

from spojoin.embedded.engine import Engine
from spojoin.embedded.run import frame_sizes
from spojoin.errors import BadData
from spojoin.model import Query
from spojoin.protocol.generations import Beginning
from spojoin.spark.answer_order import ClosedHere
from spojoin.spark.blocks import HistoryBlocks
from spojoin.spark.shares import HistoryShare
from spojoin.wire.records import NEVER, SourcePosition

_known_modules = 0

#: The rows of each input in a block, None for an input without rows.
BlockRows = tuple[pa.RecordBatch | None, ...]


def freeze_imports() -> None:
    """Exclude all objects that imports have made from garbage collection. Call it first in a task.

    Does nothing outside of Spark's tasks, or if nothing has been imported since the last call.
    """
    global _known_modules  # noqa: PLW0603  (one process is one worker)
    if TaskContext.get() is None or len(sys.modules) == _known_modules:
        return
    _known_modules = len(sys.modules)
    gc.freeze()
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):  # if an import needs one, Python makes it again from cached data
            del sys.path_importer_cache[path]


@dataclass(frozen=True, slots=True)
class ShareWork:
    """What a task knows about its share of a history.

    beginning: where numbers begin, and which rows are answered; reads: how many rows with a number it reads
    closed: the rows of both sides that are answered, if this happens as they close; None for all
    """

    beginning: Beginning
    reads: int
    closed: ClosedHere | None = None

    @classmethod
    def of(cls, blocks: HistoryBlocks, share: HistoryShare, ahead: int = 0) -> ShareWork:
        """The work of a share, by the blocks' counts; ahead: a table's rows, which are numbered before all others."""
        numbered = blocks.numbered_before
        positions = blocks.rows_before[share.first].tolist()
        beginning = Beginning(
            starts={(number, 0): SourcePosition(place, 0, NEVER) for number, place in enumerate(positions)},
            first_indexes=tuple(blocks.members_before[share.first].tolist()),
            first_seq=int(numbered[share.first]),
            own=range(int(numbered[share.begin]) + ahead, min(int(numbered[share.end]), blocks.own) + ahead),
        )
        return cls(beginning, int(numbered[share.last] - numbered[share.first]), share.closed)


def answer_share(
    query: Query, work: ShareWork, blocks: Iterable[BlockRows], table: pa.RecordBatch | None = None
) -> Iterator[pa.RecordBatch]:
    """The results of a share's rows, in order.

    blocks: the blocks that the task reads, in order; table: all rows of the query's table, if it has one

    Raises BadData if the rows aren't those that were counted.
    """
    own = None if work.closed is None else work.closed.watched()
    engine = Engine(query, frame_sizes(1), own, beginning=work.beginning)
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
        if table is None:  # a table's rows would be counted too
            _check(engine, work)


def _check(engine: Engine, work: ShareWork) -> None:
    if engine.tuples != work.reads:
        raise BadData(
            f"{engine.tuples:,} rows came where {work.reads:,} had been counted: the source gives other rows each time "
            "it is read; write it to a table first, or cache it"
        )
