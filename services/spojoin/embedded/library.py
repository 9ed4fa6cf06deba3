"""The join for Python users: batches in, Arrow tables of results out, a window that slides on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, Union

import numpy as np
import pyarrow as pa

from spojoin.embedded.inputs import with_key_type
from spojoin.embedded.run import engine_for
from spojoin.embedded.writers import result_schema
from spojoin.errors import BadData, ConfigurationError
from spojoin.query.load import load_query, parse_query
from spojoin.query.model import Query
from spojoin.query.schema import arrow_schema
from spojoin.wire.records import DeadLetter

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

Rows = Union[pa.RecordBatch, pa.Table, "pd.DataFrame", Mapping[str, "np.ndarray"]]


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

    Tuples are evaluated in frames of many, so `push` returns the results that are ready and `flush` all that are due.

    Args:
        query: the path of a query file, the query's YAML text, or a Query.
        workers: in how many parts the window is searched, by default as the query's layout says; results don't depend
            on it.

    """

    def __init__(self, query: Query | Path | str, *, workers: int | None = None) -> None:
        self.query = _query(query)
        self._engine = engine_for(self.query, workers)
        self._key_types: dict[int, pa.DataType] = {}
        self._is_closed = False

    def push(self, rows: Rows, stream: str | None = None) -> pa.Table:
        """Append rows to a stream (needed where the query has two) and return the results that are ready.

        `rows`: anything that pyarrow.table takes, with the columns of the stream's schema, its time and its key; other
        columns are ignored. Rows with a null or NaN join value take no part; `rejected` counts them.

        Raises ConfigurationError where the stream or a column is missing.
        """
        self._check_open()
        index = self._index(stream)
        batches = [result for batch in self._batches(rows, index) for result in self._engine.feed(index, batch)]
        return self._table(batches)

    def flush(self) -> pa.Table:
        """Evaluate all that was pushed and return the results not returned yet; pushing may go on after it."""
        self._check_open()
        return self._table(list(self._engine.flush()))

    @property
    def tuples(self) -> int:
        """Tuples that have taken their place in the order."""
        return self._engine.tuples

    @property
    def matches(self) -> int:
        """Matches found so far."""
        return self._engine.matches

    @property
    def rejected(self) -> dict[str, int]:
        """Rows refused so far, by reason; those behind the last results are counted with the next."""
        return dict(self._engine.rejected)

    def take_rejects(self) -> list[DeadLetter]:
        """The rows refused since the last call; `offset` is the position in the stream."""
        return self._engine.take_rejects()

    def close(self) -> None:
        """Let go of the window; results not flushed are lost."""
        self._is_closed = True
        del self._engine

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConfigurationError("this join is closed: make a new one")

    def _index(self, stream: str | None) -> int:
        names = [each.name for each in self.query.streams]
        if stream is None and len(names) == 1:
            return 0
        if stream not in names:
            raise ConfigurationError(f"stream={stream!r}: expected one of {', '.join(map(repr, names))}")
        return names.index(stream)

    def _batches(self, rows: Rows, index: int) -> list[pa.RecordBatch]:
        stream = self.query.streams[index]
        table = _as_table(rows)
        needed = arrow_schema(stream, self.query.needs_time).names
        missing = [name for name in needed if name not in table.column_names]
        if missing:
            found = ", ".join(table.column_names)
            raise ConfigurationError(
                f"stream {stream.name!r}: its rows have no column {missing[0]!r}; they have {found}"
            )
        batches = table.select(needed).to_batches()
        return [self._with_stable_key(batch, index, stream.key) for batch in batches] if stream.key else batches

    def _with_stable_key(self, batch: pa.RecordBatch, index: int, key: str) -> pa.RecordBatch:
        """Keys keep the type of the stream's first batch: int64 for integers, else text."""
        is_integer = pa.types.is_integer(batch.schema.field(key).type)
        wanted = self._key_types.setdefault(index, pa.int64() if is_integer else pa.string())
        return with_key_type(batch, key, wanted, f"stream {self.query.streams[index].name}")

    def _table(self, batches: list[pa.RecordBatch]) -> pa.Table:
        if batches:
            return pa.Table.from_batches(batches)
        types = [self._key_types.get(i, pa.int64()) for i in range(len(self.query.streams))]
        return result_schema(self.query, types).empty_table()


def _query(query: Query | Path | str) -> Query:
    if isinstance(query, Query):
        return query
    if isinstance(query, str) and "\n" in query:
        return parse_query(query)
    return load_query(Path(query))


def _as_table(rows: Rows) -> pa.Table:
    try:
        return pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else pa.table(rows)
    except (TypeError, pa.ArrowInvalid) as error:
        raise BadData(f"rows must be an Arrow batch or table, a data frame or a dict of arrays: {error}") from error
