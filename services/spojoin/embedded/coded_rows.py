"""Codes the rows of a batch for the router, and keeps refused rows as dead letters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.columns.extract import Extracted, extract
from spojoin.errors import BadData
from spojoin.model import Query
from spojoin.wire.records import DeadLetter, Rows


def table_rows(query: Query, batch: pa.RecordBatch, named: str, malformed: Mapping[int, str] | None = None) -> Rows:
    """All rows of a query's table, coded. Raises BadData for the first row that can't be used.

    named: the table's name in the error
    malformed: why a line is not a row, by its position; if given, unusable rows are refused and nothing is raised
    """
    number = len(query.inputs) - 1
    found = extract(query.inputs[number], batch, False, number, malformed or {})
    if found.refused and malformed is None:
        first = found.refused[0]
        raise BadData(f"{named}, row {first.row}: {first.detail}: a table is taken as a whole")
    return _coded(found, number, 0, batch.num_rows)


def stream_rows(
    query: Query,
    stream: int,
    batch: pa.RecordBatch,
    first: int,
    malformed: Mapping[int, str],
    places: NDArray[np.int64] | None = None,
) -> Rows:
    """The rows of a stream, coded; `first` is the position of the first one. malformed, places: see `Engine.feed`."""
    found = extract(query.inputs[stream], batch, query.needs_time, stream, malformed)
    return _coded(found, stream, first, batch.num_rows, places)


def _coded(found: Extracted, number: int, first: int, count: int, places: NDArray[np.int64] | None = None) -> Rows:
    """The `count` rows of input `number` as the router accepts them; `first` is the position of the first one."""
    positions = found.kept + first
    keys = found.keys
    if keys is None:
        keys = pa.array(positions if places is None else places[found.kept])
    return Rows(
        offsets=positions,
        rows=np.zeros(len(positions), np.int64),
        next_offset=first + count,
        codes=found.codes,
        times_us=found.times_us,
        keys=keys,
        produced_ms=np.zeros(len(positions), np.int64),
        dead=[DeadLetter(number, 0, first + each.row, 0, each.reason, each.detail, b"") for each in found.refused],
        payload=found.payload,
        members=found.members,
        joins=found.joins,
    )


class RefusedLetters:
    """Keeps dead letters until they are taken. by_reason: the number of all letters so far, by reason."""

    def __init__(self) -> None:
        self.by_reason: dict[str, int] = {}
        self._waiting: list[DeadLetter] = []

    def add(self, letter: DeadLetter) -> None:
        self._waiting.append(letter)
        self.by_reason[letter.reason] = self.by_reason.get(letter.reason, 0) + 1

    def take(self) -> list[DeadLetter]:
        """The letters since the last call; `offset` is the row's position in its input."""
        taken, self._waiting = self._waiting, []
        return taken
