"""The join with a table by DuckDB, which is faster if many rows are joined at once and each has few partners.

Rows are read, refused, coded and written as by the engine, but the engine's kernels aren't loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spojoin.arrays import I64
from spojoin.columns.stream_columns import assigned_slots, no_payload
from spojoin.embedded.batches import one_batch
from spojoin.embedded.coded_rows import RefusedLetters, stream_rows, table_rows
from spojoin.model import ASKS_NOTHING, JoinKind, LayoutChoice, Method, Op, Output, Query, Stream
from spojoin.roles.sink.pairs import NO_ROW, Projection, SeqPairs, residual_program
from spojoin.wire.records import DeadLetter, Rows

if TYPE_CHECKING:
    from spojoin.embedded.engine import Engine
    from spojoin.embedded.table_pairs import TablePairs

#: Rows of the stream that are joined at once.
PIECE_ROWS = 1 << 20


def is_joined_by_duckdb(query: Query) -> bool:
    """Whether the query lists pairs with a table, found by plain comparisons of codes that leave few candidates.

    This takes an equality or two ranges. Rows must not need sequence numbers, since DuckDB doesn't number them.
    """
    answers = query.answers
    is_left = answers.join is JoinKind.LEFT and not query.residuals
    gives_pairs = query.results.output is Output.ROWS and not (answers.grouped or answers.best or answers.where)
    expressions = (*query.residuals, *(each.expression for each in query.results.select))
    ops = [each.op for each in query.directions[0].predicates]
    return (
        query.has_table
        and not query.is_of_one_input
        and gives_pairs
        and (is_left or answers.join is JoinKind.INNER)
        and (query.method, query.layout) == (Method(), LayoutChoice())
        and not any(use.is_number for each in expressions for use in each.uses)
        and not any(op.is_band for op in ops)  # a band's bounds may exceed 64 bits
        and (Op.EQ in ops or sum(op is not Op.NE for op in ops) > 1)
    )


class TableJoin:
    """Gives the same rows as `Engine`, in the same order. If a piece has many partners, an engine takes over.

    threads: see `Engine`; engine: opens an engine
    """

    def __init__(self, query: Query, threads: int, engine: Callable[[], Engine]) -> None:
        self.threads = threads
        self.tuples = 0
        self._query = query
        self._open_engine = engine
        self._engine: Engine | None = None
        self._table: NumberedRows | None = None
        self._pairs: TablePairs | None = None
        self._waiting: list[Rows] = []
        self._fed = 0
        self._matches = 0
        self._letters = RefusedLetters()
        self._residual = residual_program(query) if query.residuals else None
        self._projection = Projection(query)

    @property
    def rejected(self) -> dict[str, int]:
        return self._letters.by_reason

    @property
    def matches(self) -> int:
        """Matches found so far."""
        return self._matches + (self._engine.matches if self._engine else 0)

    @property
    def cut_probes(self) -> int:
        """Always 0: no limit cuts the partners in a table."""
        return 0

    @property
    def index_bytes(self) -> int:
        """Bytes of the table's rows, or of the engine's indexes."""
        if self._engine is not None:
            return self._engine.index_bytes
        return self._table.nbytes if self._table else 0

    def counters(self) -> dict[str, float]:
        """Those of the engine, once it has taken over."""
        return self._engine.counters() if self._engine else {}

    def layout_measures(self) -> dict[str, object]:
        """Those of the engine, once it has taken over."""
        return self._engine.layout_measures() if self._engine else {"name": self._query.layout.name, "workers": 1}

    def load(
        self, table: pa.RecordBatch, named: str, malformed: Mapping[int, str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Take all rows of the table. Called once, before any row of the stream; otherwise like `Engine.load`."""
        from spojoin.embedded.table_pairs import TablePairs  # noqa: PLC0415  (few runs need DuckDB)

        rows = self._accept(table_rows(self._query, table, named, malformed))
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
        rows = self._accept(stream_rows(self._query, stream, batch, self._fed, malformed or {}, places))
        self._fed = rows.next_offset
        self._waiting.append(rows)
        if self._engine or sum(map(len, self._waiting)) >= PIECE_ROWS:
            yield from self._results_of_waiting()

    def end(self, _stream: int) -> Iterator[pa.RecordBatch]:
        """Does nothing: rows that are joined with a table wait for no other stream."""
        yield from ()

    def finish(self) -> Iterator[pa.RecordBatch]:
        yield from self._results_of_waiting()
        if self._engine is not None:
            yield from self._engine.finish()

    def take_rejects(self) -> list[DeadLetter]:
        return self._letters.take()

    def close(self) -> None:
        for each in (self._pairs, self._engine):
            if each is not None:
                each.close()

    def _accept(self, rows: Rows) -> Rows:
        """The rows that aren't refused. Count those that pass the filter, and keep dead letters of the refused ones."""
        self.tuples += len(rows) if rows.members is None else int(np.count_nonzero(rows.members))
        for letter in rows.dead:
            self._letters.add(letter)
        return replace(rows, dead=[])

    def _results_of_waiting(self) -> Iterator[pa.RecordBatch]:
        """The results of the waiting rows, from DuckDB, or from the engine once it has taken over."""
        waiting, self._waiting = self._waiting, []
        if waiting and self._engine is None:
            yield from self._results_by_duckdb(NumberedRows(self._query.streams[0], 0, waiting))
        elif self._engine is not None:
            for rows in waiting:
                yield from self._engine.feed_coded(0, rows)

    def _results_by_duckdb(self, left: NumberedRows) -> Iterator[pa.RecordBatch]:
        """The results of left rows from DuckDB. If they have many partners, an engine takes over from these rows on."""
        assert self._pairs is not None, "a table is loaded before rows are fed"
        assert self._table is not None, "a table is loaded before rows are fed"
        coded = left.coded(keeps_all=self._query.answers.join is JoinKind.LEFT)
        if not self._pairs.are_few(coded):
            self._engine = self._open_engine()
            yield from self._engine.load_coded(self._table.parts[0])
            for rows in left.parts:
                yield from self._engine.feed_coded(0, rows)
            return
        for numbers in self._pairs.of(coded, self._query.answers.join):
            pairs = SeqPairs(*numbers, (left, self._table))
            if self._residual is not None:
                kept = self._residual.are_true(pairs)
                pairs = SeqPairs(pairs.left[kept], pairs.right[kept], pairs.histories)
            self._matches += int(np.count_nonzero(pairs.right != NO_ROW))
            if len(pairs.left):
                yield self._projection.select_rows(pairs)


class NumberedRows:
    """Rows of one side, numbered from 0; implements `HeldColumns`. number: the stream's number in the query."""

    def __init__(self, stream: Stream, number: int, parts: Sequence[Rows]) -> None:
        nothing = no_payload(stream)
        self.parts = parts
        self._number = number
        self._assigned = assigned_slots(stream)
        self._payload = None if nothing is None else one_batch([p.payload for p in parts if p.payload], nothing.schema)

    @property
    def nbytes(self) -> int:
        """Bytes of codes and payload."""
        codes = sum(column.nbytes for part in self.parts for column in part.codes)
        return codes + (self._payload.nbytes if self._payload is not None else 0)

    def gathers(self, names: Sequence[str], seqs: I64) -> list[Callable[[], pa.Array]]:
        """For each column, a function that gives its values in the rows `seqs`, int64 (n,)."""
        assert self._payload is not None, "columns that results name travel with the rows"
        places = pa.array(seqs)
        return [partial(self._payload.column(name).take, places) for name in names]

    def coded(self, *, keeps_all: bool) -> pa.Table:
        """The numbers `n` and the codes `k0`, `k1` ... of the rows that may have partners.

        keeps_all: whether to include all rows that pass the filter; NULL codes mean that a row can't have partners
        """
        joins = np.concatenate(
            [
                np.full(len(part), 1 << self._number, np.uint8) if part.joins is None else part.joins
                for part in self.parts
            ]
        )
        passing = joins >> self._number & 1 == 1
        joining = passing & (joins >> (ASKS_NOTHING + self._number) & 1 == 0)
        numbers = np.flatnonzero(passing if keeps_all else joining)
        hidden = None if joining[numbers].all() else ~joining[numbers]
        columns = {"n": pa.array(numbers)}
        for slot, codes in enumerate(zip(*(part.codes for part in self.parts), strict=True)):
            columns[f"k{slot}"] = pa.array(np.concatenate(codes)[numbers], mask=hidden)
        for each in self._assigned:
            assert self._payload is not None, "values that are compared travel with the rows"
            values = self._payload.column(each.column).take(columns["n"])
            columns[f"k{each.slot}"] = values if hidden is None else pc.if_else(pa.array(hidden), None, values)
        return pa.table(columns)
