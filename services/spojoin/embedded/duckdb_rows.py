"""Runs SQL over joins, files and tables with DuckDB, which has no access to files or networks itself."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa

from spojoin.embedded.arrow_rows import ArrowRows
from spojoin.embedded.file_reader import distinct_names
from spojoin.errors import BadData, QueryError
from spojoin.expressions.engine import connected, heeding_signals, sentence
from spojoin.query.engine_check import with_names_quoted

#: Rows that DuckDB gives at once.
BATCH_ROWS = 1 << 16


def spilling_connection(threads: int | None) -> duckdb.DuckDBPyConnection:
    """A connection in UTC that spills to disk, and has no access to other files or networks.

    threads: how many threads it may use; None means one for each core
    """
    spilled = Path(tempfile.gettempdir()) / f"spojoin-{secrets.token_hex(4)}.spilled"
    config: dict[str, str | bool | int] = {
        "python_enable_replacements": False,
        "autoload_known_extensions": False,
        "temp_directory": str(spilled),
    }
    return connected(config | ({"threads": threads} if threads else {}))


def record_batches(relation: duckdb.DuckDBPyRelation) -> Iterator[pa.RecordBatch]:
    """The rows of a relation, made while they are read."""
    made = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch  # by DuckDB's version
    with heeding_signals():
        yield from made(BATCH_ROWS)


class DuckdbRows(ArrowRows):
    """The rows of a statement over named relations. Raises QueryError if DuckDB can't parse or bind the statement."""

    def __init__(self, sql: str, relations: Mapping[str, ArrowRows], threads: int | None = None) -> None:
        self.sql = sql
        self.relations = {name: _WatchedRows(rows) for name, rows in relations.items()}
        self._threads = threads
        super().__init__(self._schema(), self.relations.values())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch. Raises what the relations raise, and BadData if a value can't be computed."""
        connection = self._opened()
        try:
            for batch in record_batches(connection.sql(self.sql)):
                is_told_apart = batch.schema.names == self.schema.names
                yield batch if is_told_apart else batch.rename_columns(self.schema.names)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise self._cause(error) from error
        finally:
            connection.close()
            self._note()

    def _schema(self) -> pa.Schema:
        """The columns that DuckDB gives."""
        with closing(self._opened()) as connection:
            try:
                try:
                    return _with_distinct_names(connection.sql(self.sql))
                except duckdb.ParserException:  # a column's name may be a reserved word of DuckDB
                    self.sql = with_names_quoted(self.sql)
                    return _with_distinct_names(connection.sql(self.sql))
            except duckdb.Error as error:
                raise QueryError(f"sql: {sentence(error)}") from error

    def _opened(self) -> duckdb.DuckDBPyConnection:
        """A connection with the relations."""
        connection = spilling_connection(self._threads)
        for name, rows in self.relations.items():
            connection.register(name, rows)
        return connection

    def _cause(self, error: Exception) -> Exception:
        """The error that a relation raised while it was read, or otherwise DuckDB's error."""
        raised = next((each.error for each in self.relations.values() if each.error is not None), None)
        if raised is not None:
            return raised
        return BadData(f"sql: {sentence(error) if isinstance(error, duckdb.Error) else error}")


def _with_distinct_names(relation: duckdb.DuckDBPyRelation) -> pa.Schema:
    """The columns of a relation, with distinct names."""
    schema = relation.limit(0).to_arrow_table().schema
    names = distinct_names(relation.columns)
    return pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])


class _WatchedRows(ArrowRows):
    """Rows that remember the error that ended their reading; DuckDB passes on only its text."""

    def __init__(self, rows: ArrowRows) -> None:
        super().__init__(rows.schema, [rows])
        self.error: Exception | None = None
        self._rows = rows

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""
        try:
            yield from self._rows
        except Exception as error:
            self.error = error
            raise
        finally:
            self._note()
