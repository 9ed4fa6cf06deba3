"""Finds the pairs of stream and table rows whose codes fulfil all conditions, with DuckDB.

DuckDB uses a hash join if there is an equality, otherwise the inequality join of Khayyat et al. ("Lightning Fast and
Space Efficient Inequality Joins", PVLDB 8, 2015).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import numpy as np
import pyarrow as pa

from spojoin.arrays import I64
from spojoin.embedded.duckdb_rows import record_batches, spilling_connection
from spojoin.errors import BadData
from spojoin.expressions.engine import heeding_signals, sentence
from spojoin.model import OPERATORS, Direction, JoinKind, Op
from spojoin.roles.sink.pairs import NO_ROW

#: If the product of both sides' numbers of rows is at most this, they are joined without estimating the partners.
SMALL = 1 << 24
#: The most rows that a row may be compared with, and the most partners, on average: DuckDB compares rows with equal
#: keys one by one, and sorts all pairs before it gives the first.
COMPARED_MAX, PARTNERS_MAX = 64, 16
#: How many rows are sampled for the average, first few, then many: with many partners, even a sample takes long.
SAMPLES = (64, 4_096)
#: How many rows of a table are sampled if there is no equality.
SAMPLED_ROWS = 1 << 16


class TablePairs:
    """Finds pairs with a table's rows, given by `NumberedRows.coded`. threads: how many threads DuckDB may use."""

    def __init__(self, direction: Direction, table: pa.Table, threads: int) -> None:
        self._conditions = " AND ".join(
            f"r.k{each.target_slot} {OPERATORS[each.op].sign} l.k{each.probe_slot}" for each in direction.predicates
        )
        self._equal = [(each.probe_slot, each.target_slot) for each in direction.predicates if each.op is Op.EQ]
        self._rows = table.num_rows
        self._sampled = table if self._equal else table.take(_spread(table.num_rows, SAMPLED_ROWS))
        self._connection = spilling_connection(threads)
        self._connection.register("r", table)
        self._connection.register("sampled", self._sampled)

    def close(self) -> None:
        """Release the table."""
        self._connection.close()

    def of(self, left: pa.Table, join: JoinKind) -> Iterator[tuple[I64, I64]]:
        """The numbers of left and right rows of all pairs, in order; NO_ROW for the partner of a row without one."""
        self._connection.register("l", left)
        # Two numbers of 32 bits are packed into one, which DuckDB sorts in two thirds of the time.
        pair = f"l.n << 32 | coalesce(r.n - {NO_ROW}, 0)"
        sql = f"SELECT {pair} AS pair FROM l {join.value} JOIN r ON {self._conditions} ORDER BY pair"
        try:
            for batch in record_batches(self._connection.sql(sql)):
                pairs = batch.column(0).to_numpy()
                yield pairs >> 32, (pairs & 0xFFFF_FFFF) + NO_ROW
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            why = sentence(error) if isinstance(error, duckdb.Error) else error
            raise BadData(f"the join with the table can't be made: {why}") from error

    def are_few(self, left: pa.Table) -> bool:
        """Whether left rows are compared with few rows of the table and find few partners; estimated from a sample."""
        if left.num_rows * self._rows <= SMALL:
            return True
        return all(self._are_few_of(left.take(_spread(left.num_rows, count))) for count in SAMPLES)

    def _are_few_of(self, sample: pa.Table) -> bool:
        self._connection.register("probes", sample)
        if self._equal and self._compared() > COMPARED_MAX * sample.num_rows:
            return False
        found = self._counted(f"SELECT count(*) FROM probes AS l JOIN sampled AS r ON {self._conditions}")
        return bool(found * self._rows <= PARTNERS_MAX * sample.num_rows * self._sampled.num_rows)

    def _compared(self) -> int:
        """The number of pairs of sampled rows and table rows with equal keys."""
        of_probe, of_table = (
            _rows_by_key(*side) for side in zip(("probes", "r"), zip(*self._equal, strict=True), strict=True)
        )
        self._connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS keyed AS {of_table}")  # once for all pieces
        using = ", ".join(f"e{number}" for number in range(len(self._equal)))
        pairs = f"({of_probe}) AS a JOIN keyed AS b USING ({using})"
        return self._counted(f"SELECT coalesce(sum(a.rows * b.rows), 0) FROM {pairs}")

    def _counted(self, sql: str) -> int:
        with heeding_signals():
            return int(self._connection.sql(sql).fetchall()[0][0])


def _rows_by_key(name: str, slots: Sequence[int]) -> str:
    """The number of rows for each key."""
    keys = ", ".join(f"k{slot} AS e{number}" for number, slot in enumerate(slots))
    return f"SELECT {keys}, count(*) AS rows FROM {name} GROUP BY ALL"


def _spread(rows: int, count: int) -> pa.Array:
    """The numbers of `count` rows, evenly spread among `rows` rows."""
    return pa.array(np.linspace(0, rows - 1, min(rows, count)).astype(np.int64))
