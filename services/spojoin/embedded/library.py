"""The join for Python users: push rows, get Arrow tables of results, over a sliding window."""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from os import PathLike
from types import TracebackType
from typing import Self

import pyarrow as pa

from spojoin.embedded.arguments import RowsLike, checked_number, tables_of
from spojoin.embedded.asked_query import asked_query
from spojoin.embedded.declared import SchemaLike
from spojoin.embedded.engine import Engine
from spojoin.embedded.feeds import Fed, Feeds, fed, in_thread
from spojoin.embedded.inputs import with_key_type
from spojoin.embedded.notebook import MARK, Rejects, html_table, show_results
from spojoin.embedded.one_batch import one_batch
from spojoin.embedded.reasons import Reasons
from spojoin.embedded.recent import Recent
from spojoin.embedded.refused_words import JOIN, JOIN_OF_FILE, Door, tell_refused
from spojoin.embedded.reject_limit import RejectLimit, parse_reject_limit
from spojoin.embedded.rejects import Reject
from spojoin.embedded.run import engine_for
from spojoin.embedded.said import warn_of_notes
from spojoin.embedded.writers import result_schema
from spojoin.errors import ConfigurationError
from spojoin.model import Output, Query
from spojoin.query.schema import arrow_schema
from spojoin.wire.records import DeadLetter


@dataclass(frozen=True, slots=True)
class _Figures:
    """The figures of a join so far."""

    tuples: int = 0
    matches: int = 0
    rejected: dict[str, int] = field(default_factory=dict)


class _Refused(Reasons):
    """The rows that a join has refused, of which it tells when it is flushed. rows: pushed so far."""

    def __init__(self, limit: RejectLimit, door: Door) -> None:
        super().__init__()
        self.rows = 0
        self._limit = limit
        self._door = door
        self._told = 0

    def tell(self, query: Query) -> None:
        """Warn the first time; BadData where too many rows are refused, and some since the last time."""
        report = self.figures(self.rows)
        told, self._told = self._told, report["rejected"]
        if self._told > told:
            tell_refused(report, query, self._limit, self._door, warns=not told)


class Join:
    """A join over streams that go on: rows are pushed, and results come as they are ready.

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

    Or a query file, which says more, such as outputs and keys: `spojoin.Join("trips.yaml")`.

    Tuples are evaluated in large frames: `push` returns the results that are ready, `flush` all that are due, `finish`
    also those of rows that wait for later partners, and `results` reads asynchronous feeds.

    Args:
        query: a statement, if there are schemas; else the path of a query file, the query's YAML text, or a Query.
        schemas: the columns of each stream that the statement names: their types by name, an Arrow schema, or a table
            or data frame of rows like those to come.
        time: the event-time column of all streams, or of each by its name. With it, and with a time window or none,
            rows are ordered by event time; else they are in the order in which they are pushed.
        lateness: how far event times may run backwards, such as "5 s".
        max_rejects: how many rows may be refused, a share such as 0.1 or "10%", or a number of rows. A warning tells of
            the first; `flush`, `finish` and the end of `results` raise BadData once there are more, or all are.
        workers: the number of parts in which the window is searched, by default the layout's; results don't depend
            on it.
        threads: how many share the work, by default as many as this process may use cores; results don't depend on it.

    Raises ConfigurationError where the query or the schemas are wrong.

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
        self.query = asked_query(query, schemas, time, lateness)
        warn_of_notes(self.query)
        self._engine: Engine | None = engine_for(
            self.query, checked_number("workers", workers), checked_number("threads", threads)
        )
        #: the columns that are read of each input
        self._read = [list(arrow_schema(each, self.query.needs_time).names) for each in self.query.inputs]
        #: those that it must have, even a time that arrival order doesn't read: it may be misspelled
        self._needed = [
            list(dict.fromkeys([*read, *filter(None, [each.time])]))
            for read, each in zip(self._read, self.query.inputs, strict=True)
        ]
        #: results without rows, by the types of the keys
        self._nothing: dict[tuple[pa.DataType, ...], pa.Table] = {}
        self._last = _Figures()
        self._key_types: dict[int, pa.DataType] = {}
        self._recent = [Recent() for _ in self.query.inputs]
        self._pushed = 0
        self._is_loaded = not self.query.has_table
        self._ready: list[pa.RecordBatch] = []
        self._rejects = Rejects()
        door = JOIN_OF_FILE if schemas is None else JOIN
        self._refused = _Refused(parse_reject_limit(max_rejects, "max_rejects="), door)
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
        self._check_loaded()
        for table in tables_of(rows, self._needed[index]):
            for batch in self._batches(table, index):
                self._recent[index].keep(batch)
                self._pushed += batch.num_rows
                self._refused.rows += batch.num_rows
                self._ready += engine.feed(index, batch)
                self._note(engine.take_rejects())
        self._ready += engine.wait()
        return self._taken()

    def load(self, rows: RowsLike) -> pa.Table:
        """Take all rows of the query's table, as `push` takes rows, and return the results that are ready.

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

        Rows that are pushed from now on are joined with these rows, those before with the ones loaded before.

        Raises ConfigurationError where the query has no table or a column is missing, BadData where a row can't be
        used: then the table stays as it was.
        """
        engine, index = self._open(), len(self.query.inputs) - 1
        if not self.query.has_table:
            raise ConfigurationError(f"the query {self.query.name!r} joins with no table: push rows to its streams")
        name = self.query.inputs[index].name
        batches = [b for table in tables_of(rows, self._needed[index]) for b in self._batches(table, index)]
        self._ready += engine.load(one_batch(batches, arrow_schema(self.query.inputs[index], False)), f"table {name}")
        self._is_loaded = True
        return self._taken()

    def flush(self) -> pa.Table:
        """Evaluate everything pushed and return the results not returned yet; pushing may continue afterwards.

        Raises BadData where more rows were refused than `max_rejects` allows; the next call returns the results.
        """
        self._settled(self._open().flush())
        return self._taken()

    def finish(self) -> pa.Table:
        """As `flush`, and answer rows that wait for later partners (EMIT ON CLOSE): they get none any more."""
        self._settled(self._open().finish())
        return self._taken()

    async def results(self, feeds: Feeds) -> AsyncGenerator[pa.Table, None]:
        """The results of rows that come from asynchronous feeds, as Arrow tables, until all feeds have ended.

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

        Rows are evaluated in another thread, so that other tasks go on. Results come when enough rows have, and when
        no new ones have come for 50 ms; rows in the order of event time are answered when no earlier row can come.
        Rows aren't read ahead of the join. Rows must not be pushed meanwhile.

        Args:
            feeds: an asynchronous iterable of rows, as `push` takes them; of several streams a dict of one for each.

        Raises what `push` raises, ConfigurationError where a feed is none, and a feed's own error.

        """
        self._open()
        async with aclosing(fed(feeds)) as pieces:
            async for piece in pieces:
                table = await in_thread(self._taken_from, piece)
                if table.num_rows:
                    yield table
        try:
            await in_thread(self._settled, self._open().finish())
        finally:
            table = self._taken()
            if table.num_rows:
                yield table

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

    def _taken_from(self, piece: Fed | None) -> pa.Table:
        """The results that a feed's piece brings, or its end, or None: a pause of all feeds."""
        if piece is not None and piece.rows is not None:
            return self.push(piece.rows, piece.stream)
        engine = self._open()
        self._ready += engine.settle() if piece is None else engine.end(self._index(piece.stream))
        self._note(engine.take_rejects())
        return self._taken()

    def _waiting(self) -> int:
        """Rows whose results are still to come, with those that no filter has seen; 0 for a closed join."""
        return max(self._pushed - self._answered(), 0) if self._engine else 0

    def _answered(self) -> int:
        """Rows that have been put in order or refused."""
        figures = self._figures
        return figures.tuples + sum(figures.rejected.values())

    def _settled(self, found: Iterable[pa.RecordBatch]) -> None:
        """Take the results of all that was pushed, and tell of refused rows."""
        self._ready += found
        self._note(self._open().take_rejects())
        self._pushed = self._answered()
        self._refused.tell(self.query)

    def _open(self) -> Engine:
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
            found = [
                Reject(each.offset, stream.name, each.reason, each.detail, values.get(each.offset)) for each in here
            ]
            self._rejects += found
            self._refused.note(found)

    def _taken(self) -> pa.Table:
        """The results not returned yet."""
        batches, self._ready = self._ready, []
        if batches:
            return pa.Table.from_batches(batches).replace_schema_metadata({MARK: self.query.name})
        types = tuple([self._key_types.get(i, pa.int64()) for i in range(len(self.query.inputs))])
        if types not in self._nothing:
            empty = result_schema(self.query, types).empty_table()
            self._nothing[types] = empty.replace_schema_metadata({MARK: self.query.name})
        return self._nothing[types]


def _check_columns(found: list[str], needed: list[str], stream: str) -> None:
    for name in needed:
        if name not in found:
            raise ConfigurationError(
                f"stream {stream!r}: its rows have no column {name!r}; they have {', '.join(found) or 'none'}"
            )
        if found.count(name) > 1:
            raise ConfigurationError(f"stream {stream!r}: its rows have the column {name!r} more than once")
