"""The join with a table where DuckDB is the better way: many rows at once, of which each has few partners.

Rows are read, refused, coded and put out as by the engine, whose kernels needn't even be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.embedded.letters import Letters
from spojoin.embedded.numbered_rows import SIGNS, NumberedRows
from spojoin.embedded.taken_rows import stream_rows, table_rows
from spojoin.model import JoinKind, LayoutChoice, Method, Op, Output, Query
from spojoin.roles.sink.pairs import NO_ROW, Projection, SeqPairs, residual_program
from spojoin.wire.records import DeadLetter, Rows

if TYPE_CHECKING:
    from spojoin.embedded.engine import Engine
    from spojoin.embedded.table_pairs import TablePairs

#: Rows of the stream that are joined at once.
PIECE_ROWS = 1 << 20


def may_be_joined(query: Query) -> bool:
    """Whether the query lists pairs with a table, of rows that need no number, by plain comparisons of codes.

    They must leave few pairs to look at: an equality, or two ranges.
    """
    is_left = query.join is JoinKind.LEFT and not query.residuals
    gives_pairs = query.output is Output.ROWS and not (query.grouped or query.best or query.where)
    expressions = (*query.residuals, *(each.expression for each in query.select))
    ops = [each.op for each in query.directions[0].predicates]
    return (
        query.has_table
        and not query.is_of_one_input
        and gives_pairs
        and (is_left or query.join is JoinKind.INNER)
        and (query.method, query.layout) == (Method(), LayoutChoice())
        and not any(use.is_number for each in expressions for use in each.uses)
        and set(ops) <= set(SIGNS)
        and (Op.EQ in ops or sum(op is not Op.NE for op in ops) > 1)
    )


class TableJoin:
    """Joins as `Engine` does, with the same rows in the same order; from a piece with many partners on, it does.

    threads: as of `Engine`; engine: opens one
    """

    def __init__(self, query: Query, threads: int, engine: Callable[[], Engine]) -> None:
        self.threads = threads
        self.tuples = 0
        self._query = query
        self._open = engine
        self._engine: Engine | None = None
        self._table: NumberedRows | None = None
        self._pairs: TablePairs | None = None
        self._waiting: list[Rows] = []
        self._fed = 0
        self._matches = 0
        self._letters = Letters()
        self._residual = residual_program(query) if query.residuals else None
        self._projection = Projection(query)

    @property
    def rejected(self) -> dict[str, int]:
        """As of `Engine`."""
        return self._letters.by_reason

    @property
    def matches(self) -> int:
        """Matches found so far."""
        return self._matches + (self._engine.matches if self._engine else 0)

    @property
    def cut_probes(self) -> int:
        """No limit cuts what is found in a table."""
        return 0

    @property
    def index_bytes(self) -> int:
        """Bytes of the table's rows, or of the engine's indexes."""
        if self._engine is not None:
            return self._engine.index_bytes
        return self._table.nbytes if self._table else 0

    def counters(self) -> dict[str, float]:
        """As of `Engine`, where it joins."""
        return self._engine.counters() if self._engine else {}

    def layout_measures(self) -> dict[str, object]:
        """As of `Engine`, where it joins."""
        return self._engine.layout_measures() if self._engine else {"name": self._query.layout.name, "workers": 1}

    def load(
        self, table: pa.RecordBatch, named: str, malformed: Mapping[int, str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Take all rows of the table, once, before other rows are fed; else as of `Engine`."""
        from spojoin.embedded.table_pairs import TablePairs  # noqa: PLC0415  (few runs need DuckDB)

        rows = self._accepted(table_rows(self._query, table, named, malformed))
        self._table = NumberedRows(self._query.streams[1], 1, [rows])
        self._pairs = TablePairs(self._query.directions[0], self._table.coded(keeps_all=False), self.threads)
        yield from ()

    def feed(
        self,
        stream: int,
        batch: pa.RecordBatch,
        malformed: Mapping[int, str] | None = None,
        places: NDArray[np.int64] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """As of `Engine`."""
        rows = self._accepted(stream_rows(self._query, stream, batch, self._fed, malformed or {}, places))
        self._fed = rows.next_offset
        self._waiting.append(rows)
        if self._engine or sum(map(len, self._waiting)) >= PIECE_ROWS:
            yield from self._joined()

    def end(self, _stream: int) -> Iterator[pa.RecordBatch]:
        """Rows about a table wait for no other stream."""
        yield from ()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """As of `Engine`."""
        yield from self._joined()
        if self._engine is not None:
            yield from self._engine.finish()

    def take_rejects(self) -> list[DeadLetter]:
        """As of `Engine`."""
        return self._letters.take()

    def close(self) -> None:
        """As of `Engine`."""
        for each in (self._pairs, self._engine):
            if each is not None:
                each.close()

    def _accepted(self, rows: Rows) -> Rows:
        """Rows without those that are refused, which are noted; those that pass the filter are counted."""
        self.tuples += len(rows) if rows.members is None else int(np.count_nonzero(rows.members))
        for letter in rows.dead:
            self._letters.add(letter)
        return replace(rows, dead=[])

    def _joined(self) -> Iterator[pa.RecordBatch]:
        """The results of the rows that wait."""
        waiting, self._waiting = self._waiting, []
        if waiting and self._engine is None:
            yield from self._by_pairs(NumberedRows(self._query.streams[0], 0, waiting))
        elif self._engine is not None:
            for rows in waiting:
                yield from self._engine.take(0, rows)

    def _by_pairs(self, left: NumberedRows) -> Iterator[pa.RecordBatch]:
        """The results of left rows, by the engine from now on where they have many partners."""
        assert self._pairs is not None, "a table is loaded before rows are fed"
        assert self._table is not None, "a table is loaded before rows are fed"
        coded = left.coded(keeps_all=self._query.join is JoinKind.LEFT)
        if not self._pairs.are_few(coded):
            self._engine = self._open()
            yield from self._engine.take_table(self._table.parts[0])
            for rows in left.parts:
                yield from self._engine.take(0, rows)
            return
        for numbers in self._pairs.of(coded, self._query.join):
            pairs = SeqPairs(*numbers, (left, self._table))
            if self._residual is not None:
                kept = self._residual.are_true(pairs)
                pairs = SeqPairs(pairs.left[kept], pairs.right[kept], pairs.histories)
            self._matches += int(np.count_nonzero(pairs.right != NO_ROW))
            if len(pairs.left):
                yield self._projection.rows(pairs)
