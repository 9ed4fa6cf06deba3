"""Compares two results row by row, in order and in pieces, so that memory never holds a whole result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from loadgen.check.output_digest import plain, rows_sha256
from loadgen.check.results import AS_TEXT

#: Rows that are compared at once.
PIECE_ROWS = 65_536
#: The most unmatched rows, which need memory. With more, the results differ too much for a further comparison.
OPEN_ROWS_MAX = 1_000_000

Row = tuple[Any, ...]


@dataclass(slots=True)
class OrderedOutcome:
    """The outcome of comparing `found` rows with `expected` ones.

    right: expected rows that were found, in any place; surplus: rows found that aren't expected
    misordered: places with another row than expected, if the rows are otherwise the same
    first: the first difference in words, None if the lists are equal
    """

    expected: int = 0
    found: int = 0
    right: int = 0
    surplus: int = 0
    misordered: int = 0
    first: str | None = None

    @property
    def is_same(self) -> bool:
        """Whether the lists are equal."""
        return self.first is None


class RowComparison:
    """One comparison; goes_on: whether the found rows may end early, since not all results are out yet."""

    def __init__(self, *, goes_on: bool = False) -> None:
        self._goes_on = goes_on
        self._outcome = OrderedOutcome()
        self._open: Counter[Row] = Counter()
        self._places = 0

    def compare(self, expected: Iterable[pa.RecordBatch], found: Iterable[pa.RecordBatch]) -> OrderedOutcome:
        """Compare rows with the expected ones, both in order."""
        wanted, given = _RowPieces(expected), _RowPieces(found)
        while piece := given.next(PIECE_ROWS):
            self._take(wanted.next(piece.num_rows) or piece.slice(0, 0), piece)
            if self._waits_for_too_much:
                break
        self._end(wanted, given)
        return self._outcome

    @property
    def _waits_for_too_much(self) -> bool:
        return len(self._open) > OPEN_ROWS_MAX

    def _take(self, wanted: pa.Table, given: pa.Table) -> None:
        outcome = self._outcome
        before = outcome.found
        outcome.expected += wanted.num_rows
        outcome.found += given.num_rows
        if not self._open and rows_sha256(wanted) == rows_sha256(given):
            outcome.right += wanted.num_rows
            return
        want, got = rows_of(wanted), rows_of(given)
        self._note(before, wanted, given, (want, got))
        self._count(want, got)

    def _note(self, before: int, wanted: pa.Table, given: pa.Table, rows: tuple[list[Row], list[Row]]) -> None:
        """Note the first difference of a piece that follows `before` rows."""
        want, got = rows
        places = [i for i, pair in enumerate(zip(want, got, strict=False)) if pair[0] != pair[1]]
        self._places += len(places)
        if self._outcome.first is not None:
            return
        if given.schema != wanted.schema and wanted.num_rows:
            self._outcome.first = f"the columns are {_words(given.schema)}; expected {_words(wanted.schema)}"
        else:
            at = places[0] if places else len(want)
            self._outcome.first = f"result row {before + at} is {_at(got, at)}; expected {_at(want, at)}"

    def _count(self, want: list[Row], got: list[Row]) -> None:
        """Match expected rows with found rows, in any order of arrival."""
        waiting = self._open
        waiting.update(want)
        waiting.subtract(got)
        for row in {*want, *got}:
            if not waiting[row]:
                del waiting[row]
        missing = sum(count for count in waiting.values() if count > 0)
        self._outcome.right = self._outcome.expected - missing

    def _end(self, wanted: _RowPieces, given: _RowPieces) -> None:
        outcome = self._outcome
        while self._open and not self._waits_for_too_much and (piece := wanted.next(PIECE_ROWS)):
            outcome.expected += piece.num_rows  # rows that came too early may match these
            self._count(rows_of(piece), [])
        missing, rest = wanted.rest(), given.rest()
        outcome.found += rest
        outcome.surplus = rest - sum(count for count in self._open.values() if count < 0)
        if missing and not self._goes_on:
            outcome.expected += missing
            outcome.first = outcome.first or f"result row {outcome.found} is missing, and {missing - 1:,} behind it"
        if outcome.right == outcome.expected and not outcome.surplus:
            outcome.misordered = self._places


class _RowPieces:
    """Rows cut into new pieces; a piece ends where the columns change."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = (as_compared(batch) for batch in batches if batch.num_rows)
        self._waiting: list[pa.RecordBatch] = []

    def next(self, rows: int) -> pa.Table | None:
        """The next `rows` rows, or fewer; None at the end."""
        while sum(batch.num_rows for batch in self._waiting) < rows and not self._changes():
            batch = next(self._batches, None)
            if batch is None:
                break
            self._waiting.append(batch)
        if not self._waiting:
            return None
        alike = len(self._waiting) - self._changes()
        table = pa.Table.from_batches(self._waiting[:alike])
        self._waiting = [*table.slice(rows).to_batches(), *self._waiting[alike:]]
        return table.slice(0, rows)

    def _changes(self) -> bool:
        """Whether the last waiting rows have other columns than earlier ones."""
        return len(self._waiting) > 1 and self._waiting[-1].schema != self._waiting[-2].schema

    def rest(self) -> int:
        """Read and drop the rows that are left; returns their number."""
        return sum(batch.num_rows for batch in (*self._waiting, *self._batches))


def as_compared(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows without dictionaries, and with names and keys as text, since their types may differ between messages."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        whole = plain(pa.chunked_array([column]))
        columns.append(whole.cast(pa.string()) if name in AS_TEXT else whole)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def rows_of(table: pa.Table) -> list[Row]:
    """Rows as values that compare; NaN is equal to itself."""
    columns = [["nan" if value != value else value for value in column.to_pylist()] for column in table.columns]  # noqa: PLR0124
    return list(zip(*columns, strict=True))


def _words(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _at(rows: list[Row], at: int) -> object:
    return rows[at] if at < len(rows) else "missing"
