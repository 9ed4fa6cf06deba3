"""Asks the product what drawn statements ask DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from spojoin.columns.column_types import parse_type
from spojoin.embedded.engine import Engine
from spojoin.embedded.statements import StatementOptions, statement_of_streams
from spojoin.model import Query
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from tests.support.asking_statements import AskingStatement, Row, table_of
from tests.support.table_statements import TableStatement

COLUMNS = {"id": "long", "x": "long", "y": "long", "s": "string", "at": "timestamp"}
SCHEMA = {name: parse_type(kind, name, 1) for name, kind in COLUMNS.items()}


def query_of(statement: AskingStatement | TableStatement) -> Query:
    """A drawn statement as a query."""
    options = StatementOptions(dict.fromkeys(statement.names, "at") if statement.is_timed else {})
    return statement_of_streams(statement.sql(), dict.fromkeys(statement.names, SCHEMA), options)


def engine_of(statement: AskingStatement | TableStatement, rng: Random) -> Engine:
    """The embedded engine with frames and batches of drawn sizes."""
    frames, batches, workers = (rng.choice(sizes) for sizes in ((1, 4, 16, 64), (1, 4, 8, 32), (1, 2, 3)))
    return Engine(query_of(statement), RouterConfig("test", workers, frames, batches, credits_frames=UNLIMITED))


def fed(engine: Engine, stream: int, rows: Sequence[Row], rng: Random) -> Iterator[pa.RecordBatch]:
    """The results while a stream's rows come in pieces of drawn sizes."""
    at = 0
    while at < len(rows):
        size = rng.choice((1, 5, 30))
        yield from engine.feed(stream, table_of(rows[at : at + size]))
        at += size


def rows_of(found: Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """The rows of all batches; whole decimals are integers, as in DuckDB."""
    return [
        tuple(int(value) if isinstance(value, Decimal) else value for value in row.values())
        for batch in found
        for row in batch.to_pylist()
    ]
