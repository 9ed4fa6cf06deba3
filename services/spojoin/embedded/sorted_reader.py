"""Sorts the rows of an input that ends by event time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.columns.numbers import read_times_us
from spojoin.columns.refusals import Refusals
from spojoin.embedded.batches import one_batch, rows_at
from spojoin.embedded.file_reader import Reader
from spojoin.model import ColumnType

#: Rows of one batch.
BATCH_ROWS = 1 << 16
#: How many bytes of rows are held in memory; further rows go to a temporary file.
HELD_BYTES = 64 << 20
#: The time by which rows with an unreadable time are sorted: after all others. They are refused.
_LAST = np.iinfo(np.int64).max

Times = NDArray[np.int64]


def times_of(column: pa.Array, name: str, declared: ColumnType | None) -> tuple[Times, NDArray[np.int64]]:
    """The event times of a column, and the rows that have one."""
    refusals = Refusals(len(column))
    times = read_times_us(name, column, refusals, declared)
    return times, refusals.kept()


def is_in_order(reader: Reader, name: str, declared: ColumnType | None) -> bool:
    """Whether the rows of a reader of the time column are in the order of their times."""
    last = np.iinfo(np.int64).min
    for batch in reader:
        times, kept = times_of(batch.column(name), name, declared)
        times = times[kept]
        if len(times):
            if times[0] < last or (times[1:] < times[:-1]).any():
                return False
            last = times[-1]
    return True


class SortedReader(Reader):
    """Another reader's rows by event time, ties by position. It reads all rows before it gives the first.

    places: each row's position in the other reader
    """

    def __init__(self, reader: Reader, name: str, declared: ColumnType | None) -> None:
        super().__init__(reader.path, reader.schema, reader.key)
        self.found = reader.found
        self._reader = reader
        self._name = name
        self._declared = declared

    @property
    def key_type(self) -> pa.DataType:
        """The other reader's type of keys."""
        return self._reader.key_type

    @property
    def fraction(self) -> float:
        """The fraction that has been read; sorting is not counted."""
        return self._reader.fraction

    def check_has(self, name: str) -> None:
        """Checks it as the other reader does."""
        self._reader.check_has(name)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows in order."""
        with tempfile.TemporaryDirectory(prefix="spojoin-sorting-") as folder:
            spool, found = _Spool(Path(folder, "rows")), []
            for batch in self._reader:
                times, kept = times_of(batch.column(self._name), self._name, self._declared)
                placed = np.full(len(times), _LAST)
                placed[kept] = times[kept]
                found.append(placed)
                spool.add(batch)
            places = np.argsort(np.concatenate(found), kind="stable") if found else np.empty(0, np.int64)
            self.places = places
            self._take_malformed(places)
            for begin in range(0, len(places), BATCH_ROWS):
                yield spool.rows(places[begin : begin + BATCH_ROWS], self.schema)

    def _take_malformed(self, places: Times) -> None:
        """Take over the malformed lines, by their positions after sorting."""
        known = self._reader.malformed
        now = {int(places[at]): int(at) for at in np.flatnonzero(np.isin(places, list(known)))} if known else {}
        self.malformed = {now[at]: text for at, text in known.items()}
        self.malformed_because = {now[at]: why for at, why in self._reader.malformed_because.items() if at in now}


class _Spool:
    """Keeps batches in memory or in a file, and gives rows by their places."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts = [0]
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._sink: pa.NativeFile | None = None
        self._spans: list[tuple[int, int]] = []
        self._written: pa.Buffer | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep a further batch."""
        self._starts.append(self._starts[-1] + batch.num_rows)
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes > HELD_BYTES:
            self._write()

    def _write(self) -> None:
        sink = self._sink = self._sink or pa.OSFile(str(self._path), "wb")
        for batch in self._held:
            begin = sink.tell()
            with pa.ipc.new_stream(sink, batch.schema) as writer:  # each has types and dictionaries of its own
                writer.write_batch(batch)
            self._spans.append((begin, sink.tell()))
        self._held, self._held_bytes = [], 0

    def rows(self, places: Times, schema: pa.Schema) -> pa.RecordBatch:
        """The rows at these places, in their order."""
        numbers = np.searchsorted(self._starts, places, side="right") - 1
        by_batch = np.argsort(numbers, kind="stable")
        pieces = []
        for rows in np.split(by_batch, np.flatnonzero(np.diff(numbers[by_batch])) + 1):
            number = int(numbers[rows[0]])
            pieces.append(rows_at(self._batch(number), pa.array(places[rows] - self._starts[number])))
        back = np.empty(len(places), np.int64)
        back[by_batch] = np.arange(len(places))
        return one_batch(pieces, schema).take(pa.array(back))

    def _batch(self, number: int) -> pa.RecordBatch:
        if number >= len(self._spans):
            return self._held[number - len(self._spans)]
        if self._written is None:
            assert self._sink is not None, "spans are of what was written"
            self._sink.close()
            self._written = pa.memory_map(str(self._path)).read_buffer()
        begin, end = self._spans[number]
        return pa.ipc.open_stream(self._written.slice(begin, end - begin)).read_next_batch()
