"""The join for Python users: push rows, and get the results as Arrow tables."""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from os import PathLike
from types import TracebackType
from typing import Self

import pyarrow as pa

from spojoin.columns.stream_columns import arrow_schema
from spojoin.embedded.batches import RecentRows, one_batch
from spojoin.embedded.declared_query import SchemaLike, query_of_arguments
from spojoin.embedded.engine import Engine
from spojoin.embedded.feeds import FeedPiece, Feeds, in_thread, pieces_of_feeds
from spojoin.embedded.inputs import with_key_type
from spojoin.embedded.notebook import MARK, Rejects, html_table, show_results
from spojoin.embedded.python_rows import RowsLike, checked_number, tables_of
from spojoin.embedded.refusal_report import JOIN, JOIN_OF_FILE, RejectLimit, Wording, parse_reject_limit, warn_or_raise
from spojoin.embedded.rejects import RefusalCounts, Reject
from spojoin.embedded.run import engine_for
from spojoin.embedded.statements import warn_of_notes
from spojoin.embedded.writers import result_schema
from spojoin.errors import ConfigurationError
from spojoin.model import Output, Query
from spojoin.wire.records import DeadLetter


@dataclass(frozen=True, slots=True)
class _Figures:
    tuples: int = 0
    matches: int = 0
    rejected: dict[str, int] = field(default_factory=dict)


class _RefusedRows(RefusalCounts):
    """The rows that a join has refused, of which it warns when flushed. rows: the number of rows pushed so far."""

    def __init__(self, limit: RejectLimit, wording: Wording) -> None:
        super().__init__()
        self.rows = 0
        self._limit = limit
        self._wording = wording
        self._told = 0

    def tell(self, query: Query) -> None:
        """Warn once that rows were refused. Raises BadData if too many were, and some of them since the last call."""
        report = self.figures(self.rows)
        told, self._told = self._told, report["rejected"]
        if self._told > told:
            warn_or_raise(report, query, self._limit, self._wording, warns=not told)


class Join:
    """A join over continuing streams: you push rows, and get results as soon as they are ready.

    A statement with the columns of its streams:

        >>> import spojoin
        >>> trips = {"id": "long", "distance": "double", "air_time": "double"}
        >>> statement = '''
        ...     SELECT l.id, r.id AS other
        ...     FROM trips AS l JOIN trips AS r ON l.distance > r.distance AND l.air_time < r.air_time
        ...     WINDOW AS (SLIDE INTERVAL '10K' ON '100K')'''
        >>> with spojoin.Join(statement, {"trips": trips}) as join:
        ...     table = join.push({"id": [1, 2], "distance": [800.0, 900.0], "air_time": [120.0, 110.0]})
        ...     rest = join.flush()
        >>> rest.to_pylist()
        [{'id': 2, 'other': 1}]

    A query file can hold more, such as outputs and keys: `spojoin.Join("trips.yaml")`.

    Tuples are evaluated in large frames. `push` returns the results that are ready, `flush` all that are due, and
    `finish` also those of rows that wait for later partners. `results` reads asynchronous feeds.

    Args:
        query: a statement, together with schemas; or the path of a query file, the query's YAML text, or a Query.
        schemas: the columns of each stream that the statement names: their types by name, an Arrow schema, or a table
            or data frame with rows like those to come.
        time: the event-time column of all streams, or of each stream by its name. Rows are ordered by it if the
        statement has a time window or no window. Otherwise they keep the order in which they are pushed.
        lateness: how far event times may run backwards, such as "5 s".
        max_rejects: how many rows may be refused: a share such as 0.1 or "10%", or a number of rows. You get
        one warning about refused rows. `flush`, `finish` and the end of `results` raise BadData if more are
        refused, or all.
        workers: the number of parts in which the window is searched; by default the layout's number. It doesn't
        change the results.
        threads: how many threads share the work; by default one for each core that this process may use. It doesn't
        change the results.

    Raises ConfigurationError if the query or the schemas are wrong.

    """

    def __init__(
        self,
        query: Query | PathLike[str] | str,
        schemas: Mapping[str, SchemaLike] | None = None,
        *,
        time: str | Mapping[str, str] | None = None,
        lateness: str | None = None,
        max_rejects: str | float = "50%",
        workers: int | None = None,
        threads: int | None = None,
    ) -> None:
        self.query = query_of_arguments(query, schemas, time, lateness)
        warn_of_notes(self.query)
        self._engine: Engine | None = engine_for(
            self.query, checked_number("workers", workers), checked_number("threads", threads)
        )
        #: the columns that are read, for each input
        self._read = [list(arrow_schema(each, self.query.needs_time).names) for each in self.query.inputs]
        #: the columns that each input must have, even a time that arrival order ignores: its name may be misspelled
        self._needed = [
            list(dict.fromkeys([*read, *filter(None, [each.time])]))
            for read, each in zip(self._read, self.query.inputs, strict=True)
        ]
        #: empty tables of results, by the types of the keys
        self._empty_results: dict[tuple[pa.DataType, ...], pa.Table] = {}
        self._last = _Figures()
        self._key_types: dict[int, pa.DataType] = {}
        self._recent = [RecentRows() for _ in self.query.inputs]
        self._pushed = 0
        self._is_loaded = not self.query.has_table
        self._ready: list[pa.RecordBatch] = []
        self._rejects = Rejects()
        wording = JOIN_OF_FILE if schemas is None else JOIN
        self._refused_rows = _RefusedRows(parse_reject_limit(max_rejects, "max_rejects="), wording)
        show_results()

    def push(self, rows: RowsLike, stream: str | None = None) -> pa.Table:
        """Append rows to a stream and return the results that are ready. Name the stream if the query has two.

        `rows` is anything that pyarrow.table takes (an Arrow batch or table, a data frame of pandas or Polars, a dict
        of arrays), a list or generator of these, a RecordBatchReader or a pyarrow Dataset. It must have the columns of
        the stream's schema, its time and its key; other columns are ignored. Rows that can't be used are left out:
        `rejected` counts them, `take_rejects` returns them.

        Raises ConfigurationError if the stream or a column is missing, and BadData if `rows` can't be read. If a
        generator fails, the pieces before the error are joined, and the next call returns their results.
        """
        engine = self._open_engine()
        index = self._index(stream)
        self._check_loaded()
        for table in tables_of(rows, self._needed[index]):
            for batch in self._batches(table, index):
                self._recent[index].keep(batch)
                self._pushed += batch.num_rows
                self._refused_rows.rows += batch.num_rows
                self._ready += engine.feed(index, batch)
                self._keep_rejects(engine.take_rejects())
        self._ready += engine.wait()
        return self._take_results()

    def load(self, rows: RowsLike) -> pa.Table:
        """Load all rows of the query's table, in any form that `push` takes; return the results that are ready.

            >>> import spojoin
            >>> statement = (
            ...     "SELECT l.id, r.name FROM orders AS l "
            ...     "JOIN TABLE(tiers) AS r ON l.amount >= r.low AND l.amount < r.high"
            ... )
            >>> schemas = {
            ...     "orders": {"id": "long", "amount": "double"},
            ...     "tiers": {"name": "string", "low": "double", "high": "double"},
            ... }
            >>> with spojoin.Join(statement, schemas) as join:
            ...     _ = join.load({"name": ["small", "large"], "low": [0, 100], "high": [100, 1000]})
            ...     _ = join.push({"id": [1, 2], "amount": [250.0, 99.5]})
            ...     join.flush().to_pylist()
            [{'id': 1, 'name': 'large'}, {'id': 2, 'name': 'small'}]

        Rows pushed after this call are joined with this table, rows pushed earlier with the table before it.

        Raises ConfigurationError if the query has no table or a column is missing. Raises BadData if a row can't be
        used; the table then stays as it was.
        """
        engine, index = self._open_engine(), len(self.query.inputs) - 1
        if not self.query.has_table:
            raise ConfigurationError(f"the query {self.query.name!r} joins with no table: push rows to its streams")
        name = self.query.inputs[index].name
        batches = [b for table in tables_of(rows, self._needed[index]) for b in self._batches(table, index)]
        self._ready += engine.load(one_batch(batches, arrow_schema(self.query.inputs[index], False)), f"table {name}")
        self._is_loaded = True
        return self._take_results()

    def flush(self) -> pa.Table:
        """Evaluate all rows pushed so far and return their remaining results; you may then push more rows.

        Raises BadData if more rows were refused than `max_rejects` allows; the next call returns the results.
        """
        self._settle_results(self._open_engine().flush())
        return self._take_results()

    def finish(self) -> pa.Table:
        """Like `flush`, but also answer the rows that wait for later partners (EMIT ON CLOSE): no more will come."""
        self._settle_results(self._open_engine().finish())
        return self._take_results()

    async def results(self, feeds: Feeds) -> AsyncGenerator[pa.Table, None]:
        """Join the rows of asynchronous feeds, and yield the results as Arrow tables until all feeds have ended.

            >>> import asyncio, spojoin
            >>> async def readings():
            ...     for number in (1, 5, 3):
            ...         yield {"value": [number]}
            >>> async def main():
            ...     statement = (
            ...         "SELECT l.value, r.value AS higher FROM readings AS l JOIN readings AS r ON l.value < r.value "
            ...         "WINDOW AS (SLIDE INTERVAL '1' ON '1000')"
            ...     )
            ...     with spojoin.Join(statement, {"readings": {"value": "int"}}) as join:
            ...         async for table in join.results(readings()):
            ...             print(table.to_pylist())
            >>> asyncio.run(main())
            [{'value': 1, 'higher': 5}, {'value': 1, 'higher': 3}, {'value': 3, 'higher': 5}]

        Rows are evaluated in another thread, so that other tasks go on. Results come when enough rows have arrived, or
        when no row has come for 50 ms. If rows are ordered by event time, a row is answered once no earlier row can
        come. Feeds aren't read ahead of the join. Don't push rows while results are being read.

        Args:
            feeds: an asynchronous iterable of rows, in any form that `push` takes; for several streams a dict with one
                iterable for each.

        Raises what `push` raises, ConfigurationError if a feed isn't an asynchronous iterable, and a feed's own errors.

        """
        self._open_engine()
        async with aclosing(pieces_of_feeds(feeds)) as pieces:
            async for piece in pieces:
                table = await in_thread(self._results_of_piece, piece)
                if table.num_rows:
                    yield table
        try:
            await in_thread(self._settle_results, self._open_engine().finish())
        finally:
            table = self._take_results()
            if table.num_rows:
                yield table

    @property
    def tuples(self) -> int:
        """The number of tuples that have been put in order."""
        return self._figures.tuples

    @property
    def matches(self) -> int:
        """The number of matches found so far."""
        return self._figures.matches

    @property
    def rejected(self) -> dict[str, int]:
        """The number of rows refused so far, by reason. Rows after the last results are counted with the next ones."""
        return dict(self._figures.rejected)

    def take_rejects(self) -> list[Reject]:
        """The rows refused since the last call, each with its position in the stream, the reason and its values.

        The values are None if the row was pushed more than 131,072 rows before it was refused.
        """
        taken, self._rejects = self._rejects, Rejects()
        return taken

    def close(self) -> None:
        """Release the window. Results that were not flushed are lost; counts and refused rows stay available."""
        if self._engine is not None:
            self._engine.close()
        self._last, self._engine = self._figures, None
        self._ready = []
        self._recent = [RecentRows() for _ in self.query.inputs]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Rows that haven't reached a filter yet count as lost, too.
        lost = max(self._pushed - self._answered(), 0) if self._engine else 0
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
            ("output", self.query.results.output.value),
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

    def _results_of_piece(self, piece: FeedPiece | None) -> pa.Table:
        """The results that become ready when a feed gives a piece or ends, or when all feeds pause (None)."""
        if piece is not None and piece.rows is not None:
            return self.push(piece.rows, piece.stream)
        engine = self._open_engine()
        self._ready += engine.settle() if piece is None else engine.end(self._index(piece.stream))
        self._keep_rejects(engine.take_rejects())
        return self._take_results()

    def _answered(self) -> int:
        """The number of rows that have been put in order or refused."""
        figures = self._figures
        return figures.tuples + sum(figures.rejected.values())

    def _settle_results(self, found: Iterable[pa.RecordBatch]) -> None:
        """Keep the results of all rows pushed so far, and warn of refused rows. Raises BadData if too many were."""
        self._ready += found
        self._keep_rejects(self._open_engine().take_rejects())
        self._pushed = self._answered()
        self._refused_rows.tell(self.query)

    def _open_engine(self) -> Engine:
        if self._engine is None:
            raise ConfigurationError(f"the join {self.query.name!r} is closed and takes no rows: make a new one")
        return self._engine

    def _index(self, stream: str | None) -> int:
        names = [each.name for each in self.query.inputs if each.table is None]
        if stream is None and len(names) == 1:
            return 0
        if stream not in names:
            raise ConfigurationError(f"stream={stream!r}: expected one of {', '.join(map(repr, names))}")
        return names.index(stream)

    def _check_loaded(self) -> None:
        if not self._is_loaded:
            raise ConfigurationError(
                f"the table {self.query.inputs[-1].name!r} has no rows yet: load them first, an empty table too"
            )

    def _batches(self, table: pa.Table, index: int) -> list[pa.RecordBatch]:
        stream = self.query.inputs[index]
        _check_columns(table.column_names, self._needed[index], stream.name)
        batches = table.select(self._read[index]).to_batches()
        return [self._with_stable_key(batch, index, stream.key) for batch in batches] if stream.key else batches

    def _with_stable_key(self, batch: pa.RecordBatch, index: int, key: str) -> pa.RecordBatch:
        """The batch with its keys in the type of the first batch's keys: int64 for integers, otherwise text.

        Counts have one key column for all streams, so their keys share one type.
        """
        is_integer = pa.types.is_integer(batch.schema.field(key).type)
        first = pa.int64() if is_integer else pa.string()
        wanted = self._key_types.setdefault(0 if self.query.results.output is Output.COUNT else index, first)
        return with_key_type(batch, key, wanted, f"stream {self.query.inputs[index].name}")

    def _keep_rejects(self, letters: Iterable[DeadLetter]) -> None:
        """Keep refused rows, with their values as far as these are still known."""
        known = list(letters)
        for index, stream in enumerate(self.query.inputs if known else ()):
            here = [letter for letter in known if letter.stream == index]
            values = self._recent[index].values_at(letter.offset for letter in here)
            found = [
                Reject(each.offset, stream.name, each.reason, each.detail, values.get(each.offset)) for each in here
            ]
            self._rejects += found
            self._refused_rows.note(found)

    def _take_results(self) -> pa.Table:
        """The results that no call has returned yet, as a table."""
        batches, self._ready = self._ready, []
        if batches:
            return pa.Table.from_batches(batches).replace_schema_metadata({MARK: self.query.name})
        types = tuple([self._key_types.get(i, pa.int64()) for i in range(len(self.query.inputs))])
        if types not in self._empty_results:
            empty = result_schema(self.query, types).empty_table()
            self._empty_results[types] = empty.replace_schema_metadata({MARK: self.query.name})
        return self._empty_results[types]


def _check_columns(found: list[str], needed: list[str], stream: str) -> None:
    for name in needed:
        if name not in found:
            raise ConfigurationError(
                f"stream {stream!r}: its rows have no column {name!r}; they have {', '.join(found) or 'none'}"
            )
        if found.count(name) > 1:
            raise ConfigurationError(f"stream {stream!r}: its rows have the column {name!r} more than once")
