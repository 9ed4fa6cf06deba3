"""The join for Python users: push rows, get Arrow tables of results, over a sliding window."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from spojoin.embedded.arguments import RowsLike, tables_of
from spojoin.embedded.engine import Engine
from spojoin.embedded.inputs import with_key_type
from spojoin.embedded.notebook import MARK, Rejects, html_table, show_results
from spojoin.embedded.recent import Recent
from spojoin.embedded.rejects import Reject
from spojoin.embedded.run import engine_for
from spojoin.embedded.writers import result_schema
from spojoin.errors import ConfigurationError
from spojoin.model import Output, Query
from spojoin.query.load import load_query, parse_query
from spojoin.query.schema import arrow_schema
from spojoin.wire.records import DeadLetter


@dataclass(frozen=True, slots=True)
class _Figures:
    """The figures of a join so far."""

    tuples: int = 0
    matches: int = 0
    rejected: dict[str, int] = field(default_factory=dict)


class Join:
    """A query that runs in this process.

        query = '''
        name: farther-in-less-time
        streams:
          trips:
            schema: {distance: double, air_time: double}
        sql: |
          SELECT * FROM trips AS l JOIN trips AS r
          ON l.distance > r.distance AND l.air_time < r.air_time
          WINDOW AS (SLIDE INTERVAL '10K' ON '100K')
        '''
        with spojoin.Join(query) as join:
            for batch in batches:
                table = join.push(batch)
            rest = join.flush()
        refused = join.take_rejects()

    Tuples are evaluated in large frames: `push` returns the results that are ready, `flush` all that are due.

    Args:
        query: the path of a query file, the query's YAML text, or a Query.
        workers: the number of parts in which the window is searched, by default the layout's; results don't depend
            on it.
        threads: how many share the work, by default as many as this process may use cores; results don't depend on it.

    """

    def __init__(
        self, query: Query | PathLike[str] | str, *, workers: int | None = None, threads: int | None = None
    ) -> None:
        self.query = _query(query)
        self._engine: Engine | None = engine_for(self.query, _checked("workers", workers), _checked("threads", threads))
        self._last = _Figures()
        self._key_types: dict[int, pa.DataType] = {}
        self._recent = [Recent() for _ in self.query.inputs]
        self._pushed = 0
        self._ready: list[pa.RecordBatch] = []
        self._rejects = Rejects()
        show_results()

    def push(self, rows: RowsLike, stream: str | None = None) -> pa.Table:
        """Append rows to a stream (needed where the query has two) and return the results that are ready.

        `rows`: anything that pyarrow.table takes (an Arrow batch or table, a data frame of pandas or Polars, a dict of
        arrays), a list or generator of these, a RecordBatchReader or a pyarrow Dataset; with the columns of the
        stream's schema, its time and its key. Other columns are ignored. Rows that can't be used are left out:
        `rejected` counts them, `take_rejects` returns them.

        Raises ConfigurationError where the stream or a column is missing, BadData where `rows` can't be read. A
        generator's pieces before the error have been taken; the next call returns their results.
        """
        engine = self._open()
        index = self._index(stream)
        for table in tables_of(rows, self._needed(index)):
            for batch in self._batches(table, index):
                self._recent[index].keep(batch)
                self._pushed += batch.num_rows
                self._ready += engine.feed(index, batch)
                self._note(engine.take_rejects())
        return self._taken()

    def flush(self) -> pa.Table:
        """Evaluate everything pushed and return the results not returned yet; pushing may continue afterwards."""
        engine = self._open()
        self._ready += engine.flush()
        self._note(engine.take_rejects())
        return self._taken()

    @property
    def tuples(self) -> int:
        """Tuples that have been put in order."""
        return self._figures.tuples

    @property
    def matches(self) -> int:
        """Matches found so far."""
        return self._figures.matches

    @property
    def rejected(self) -> dict[str, int]:
        """Rows refused so far, by reason; those after the last results are counted with the next."""
        return dict(self._figures.rejected)

    def take_rejects(self) -> list[Reject]:
        """The rows refused since the last call, each with its position in the stream, why, and its values by column.

        The values are None where the row was pushed more than 131,072 rows before it was refused.
        """
        taken, self._rejects = self._rejects, Rejects()
        return taken

    def close(self) -> None:
        """Release the window; results not flushed are lost. Counts and refused rows stay available."""
        if self._engine is not None:
            self._engine.close()
        self._last, self._engine = self._figures, None
        self._ready = []
        self._recent = [Recent() for _ in self.query.inputs]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lost = self._waiting()
        self.close()
        if lost and kind is None:
            warnings.warn(
                f"the join {self.query.name!r} is closed before {lost:,} rows have answered, and their results are "
                "lost: call flush() first",
                stacklevel=2,
            )

    def __repr__(self) -> str:
        figures = self._figures
        state = "closed" if self._engine is None else "open"
        return (
            f"<spojoin.Join {self.query.name!r}, {state}: {figures.tuples:,} tuples, {figures.matches:,} matches, "
            f"{sum(figures.rejected.values()):,} refused>"
        )

    def _repr_html_(self) -> str:
        figures = self._figures
        refused = ((f"refused: {reason}", count) for reason, count in figures.rejected.items())
        rows = [
            ("streams", ", ".join(stream.name for stream in self.query.streams)),
            ("condition", " AND ".join(predicate.text for predicate in self.query.predicates)),
            ("output", self.query.output.value),
            ("state", "closed" if self._engine is None else "open"),
            ("tuples", figures.tuples),
            ("matches", figures.matches),
            *refused,
        ]
        return html_table(["join", self.query.name], rows, "spojoin.Join")

    @property
    def _figures(self) -> _Figures:
        engine = self._engine
        return self._last if engine is None else _Figures(engine.tuples, engine.matches, dict(engine.rejected))

    def _waiting(self) -> int:
        """Rows whose results are still to come; 0 for a closed join."""
        figures = self._figures
        return self._pushed - figures.tuples - sum(figures.rejected.values()) if self._engine else 0

    def _open(self) -> Engine:
        if self._engine is None:
            raise ConfigurationError(f"the join {self.query.name!r} is closed and takes no rows: make a new one")
        return self._engine

    def _index(self, stream: str | None) -> int:
        names = [each.name for each in self.query.inputs]
        if stream is None and len(names) == 1:
            return 0
        if stream not in names:
            raise ConfigurationError(f"stream={stream!r}: expected one of {', '.join(map(repr, names))}")
        return names.index(stream)

    def _needed(self, index: int) -> list[str]:
        """Columns that a stream must have, even a time that arrival order doesn't read: it may be misspelled."""
        stream = self.query.inputs[index]
        return list(dict.fromkeys([*self._read(index), *filter(None, [stream.time])]))

    def _read(self, index: int) -> list[str]:
        return list(arrow_schema(self.query.inputs[index], self.query.needs_time).names)

    def _batches(self, table: pa.Table, index: int) -> list[pa.RecordBatch]:
        stream = self.query.inputs[index]
        _check_columns(table.column_names, self._needed(index), stream.name)
        batches = table.select(self._read(index)).to_batches()
        return [self._with_stable_key(batch, index, stream.key) for batch in batches] if stream.key else batches

    def _with_stable_key(self, batch: pa.RecordBatch, index: int, key: str) -> pa.RecordBatch:
        """Keys keep the first batch's type: int64 for integers, else text; counts have one key column for all."""
        is_integer = pa.types.is_integer(batch.schema.field(key).type)
        first = pa.int64() if is_integer else pa.string()
        wanted = self._key_types.setdefault(0 if self.query.output is Output.COUNT else index, first)
        return with_key_type(batch, key, wanted, f"stream {self.query.inputs[index].name}")

    def _note(self, letters: Iterable[DeadLetter]) -> None:
        """Keep refused rows, with their values while these are known."""
        known = list(letters)
        for index, stream in enumerate(self.query.inputs if known else ()):
            here = [letter for letter in known if letter.stream == index]
            values = self._recent[index].at(letter.offset for letter in here)
            self._rejects += [
                Reject(each.offset, stream.name, each.reason, each.detail, values.get(each.offset)) for each in here
            ]

    def _taken(self) -> pa.Table:
        """The results not returned yet."""
        batches, self._ready = self._ready, []
        types = [self._key_types.get(i, pa.int64()) for i in range(len(self.query.inputs))]
        table = pa.Table.from_batches(batches) if batches else result_schema(self.query, types).empty_table()
        return table.replace_schema_metadata({MARK: self.query.name})


def _query(query: Query | PathLike[str] | str) -> Query:
    if isinstance(query, Query):
        return query
    if not isinstance(query, str | PathLike):
        raise ConfigurationError(
            f"query is of type {type(query).__qualname__}: expected the path of a query file, a query's YAML text, "
            "or a Query"
        )
    if isinstance(query, str) and "\n" in query:
        return parse_query(query)
    return load_query(Path(query))


def _checked(name: str, number: int | None) -> int | None:
    if number is None or (isinstance(number, int) and not isinstance(number, bool) and number >= 1):
        return number
    default = {"workers": "the query's number", "threads": "one for each core"}[name]
    raise ConfigurationError(f"{name}={number!r}: expected a whole number from 1, or None for {default}")


def _check_columns(found: list[str], needed: list[str], stream: str) -> None:
    for name in needed:
        if name not in found:
            raise ConfigurationError(
                f"stream {stream!r}: its rows have no column {name!r}; they have {', '.join(found) or 'none'}"
            )
        if found.count(name) > 1:
            raise ConfigurationError(f"stream {stream!r}: its rows have the column {name!r} more than once")
