"""Gathers rows into blocks in each of Spark's partitions: their bytes, their counts, and whether they are in order."""

from __future__ import annotations

import dataclasses
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession, functions

from spojoin.arrays import Flags
from spojoin.columns.extract import Extracted, Extractor
from spojoin.embedded.inputs import with_key_type
from spojoin.model import Query, Stream
from spojoin.spark.blocks import NO_TIME, HistoryBlocks
from spojoin.spark.task import BlockRows, freeze_imports
from spojoin.spark.until import Until

#: The columns of every block: where it was gathered, its counts, its first and last key; or what is wrong with it.
FIELDS = "partition int, block long, counted binary, size long, keys binary, fault string"
_counted: Any = pc
_TYPES = (pa.int32(), pa.int64(), pa.binary(), pa.int64(), pa.binary(), pa.string())

#: The column with the number of a row's input, if there are two inputs.
INPUT = "input"


@dataclass(slots=True)
class BlockCount:
    """The counts of one block, as `HistoryBlocks` holds them for many.

    own: the number of rows before `until` among those with a number; refused: rows that can't take part, by reason
    """

    rows: list[int]
    members: list[int]
    numbered: int = 0
    own: int = 0
    first_us: int = NO_TIME
    last_us: int = -NO_TIME
    refused: Counter[str] = field(default_factory=Counter)


class RowCounter:
    """Counts the blocks of one query's history; until: the place before which rows are answered."""

    def __init__(self, query: Query, until: Until | None = None) -> None:
        self._query = query
        self._until = until
        self._extractors = [Extractor(stream, query.needs_time, n) for n, stream in enumerate(query.inputs)]

    def count(self, block: BlockRows, key: pa.Array | None = None) -> BlockCount:
        """The counts of a block; key: the order column of its rows (n,), by which `until` may divide them."""
        ahead = None if self._until is None or key is None else self._until.rows_before(key)
        found = BlockCount([0] * len(self._query.inputs), [0] * len(self._query.streams))
        for number, rows in enumerate(block):
            if rows is not None:
                found.rows[number] = rows.num_rows
                self._add(found, number, self._extractors[number](rows), ahead)
        return found

    def _add(self, count: BlockCount, number: int, rows: Extracted, ahead: int | None) -> None:
        count.refused.update(each.reason for each in rows.refused)
        members = rows.members
        for stream, source in enumerate(self._query.fed_by):
            if source == number:
                count.members[stream] += (
                    len(rows.kept) if members is None else int(np.count_nonzero(members >> stream & 1))
                )
        is_numbered = np.ones(len(rows.kept), np.bool_) if members is None else members != 0
        count.numbered += int(np.count_nonzero(is_numbered))
        answers = is_numbered if self._until is None else is_numbered & self._until.before(rows, ahead)
        count.own += int(np.count_nonzero(answers))
        if rows.times_us is not None and len(rows.kept):
            count.first_us = min(count.first_us, int(rows.times_us.min()))
            count.last_us = max(count.last_us, int(rows.times_us.max()))


def blocks_of(counts: Sequence[BlockCount], sizes: Sequence[int], query: Query) -> HistoryBlocks:
    """The counts of all blocks, in order; sizes: the bytes of each block."""
    times = np.array([(each.first_us, each.last_us) for each in counts], np.int64).reshape(-1, 2)
    return HistoryBlocks(
        np.array([each.rows for each in counts], np.int64).reshape(-1, len(query.inputs)),
        np.array([each.members for each in counts], np.int64).reshape(-1, len(query.streams)),
        np.array([each.numbered for each in counts], np.int64),
        np.array(sizes, np.int64),
        # A block without any time gets its times from its neighbours.
        np.minimum.accumulate(times[::-1, 0])[::-1],
        np.maximum.accumulate(times[:, 1]),
        sum(each.own for each in counts),
    )


UNORDERED, NULL, TWICE = "unordered", "null", "twice"

#: How often the order may begin anew in a partition, as at ends of files; once more for each so many rows.
BREAKS, ROWS_A_BREAK = 64, 100_000


@dataclasses.dataclass(frozen=True, slots=True)
class BlockGatherer:
    """Turns the rows of a partition into blocks.

    columns: for each input, its columns' names in the DataFrame by their own names; keys: the columns that order rows
    key_types: the key types of inputs whose rows have a key
    is_sorted: whether Spark has sorted the rows; is_sequence: whether the keys of rows must differ
    until: the place in the order before which rows are answered; None for all rows
    """

    query: Query
    columns: Sequence[Mapping[str, str]]
    keys: Sequence[str]
    key_types: Mapping[int, pa.DataType]
    block_rows: int
    is_sorted: bool
    is_sequence: bool
    until: Until | None = None

    @property
    def schema(self) -> str:
        """The columns of blocks as a Spark schema."""
        return ", ".join([FIELDS, *(f"{data_of(number)} binary" for number in range(len(self.columns)))])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The blocks of a partition, each as a batch of one row; at the first fault, only a row with the fault."""
        freeze_imports()
        context = TaskContext.get()
        partition, number = 0 if context is None else context.partitionId(), 0
        counter, order = RowCounter(self.query, self.until), _BlockOrder(self)
        for rows in chunks(batches, self.block_rows):
            fault, ends = order.check([rows.column(key) for key in self.keys])
            if fault:
                yield self._with(fault_row(partition, number, fault), [None] * len(self.columns))
                return
            for begin, end in zip([0, *ends], [*ends, rows.num_rows], strict=True):
                yield self._block(partition, number, rows.slice(begin, end - begin), counter)
                number += 1

    def _block(self, partition: int, number: int, rows: pa.RecordBatch, counter: RowCounter) -> pa.RecordBatch:
        block = self._by_input(rows)
        keys = [rows.column(key) for key in self.keys]
        data = [None if each is None else packed(each) for each in block]
        size = sum(len(each) for each in data if each is not None)
        return self._with(counted_row(partition, number, keys, counter.count(block, keys[0]), size), data)

    def _with(self, row: pa.RecordBatch, data: Sequence[bytes | None]) -> pa.RecordBatch:
        columns = [*row.columns, *(pa.array([each], pa.binary()) for each in data)]
        names = [*row.schema.names, *(data_of(number) for number in range(len(data)))]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _by_input(self, rows: pa.RecordBatch) -> BlockRows:
        if len(self.columns) == 1:
            return (self._of_input(0, rows),)
        inputs = rows.column(INPUT)
        found = (rows.filter(pc.equal(inputs, number)) for number in range(len(self.columns)))
        return tuple(self._of_input(n, each) if each.num_rows else None for n, each in enumerate(found))

    def _of_input(self, number: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = self.columns[number]
        batch = pa.RecordBatch.from_arrays([rows.column(here) for here in columns.values()], names=list(columns))
        return with_key(batch, self.query.inputs[number], self.key_types.get(number))


def with_key(rows: pa.RecordBatch, stream: Stream, key_type: pa.DataType | None) -> pa.RecordBatch:
    """A stream's rows with their key column, if there is one, in the common type of all keys."""
    return rows if stream.key is None or key_type is None else with_key_type(rows, stream.key, key_type, stream.name)


def counted_row(partition: int, number: int, keys: Sequence[pa.Array], count: BlockCount, size: int) -> pa.RecordBatch:
    """A block as a row of FIELDS; keys: its rows' order columns, from which it takes the first and the last row."""
    ends = tuple(_key(keys, at) for at in (0, -1))
    return _row(partition, number, (orjson.dumps(dataclasses.asdict(count)), size, pickle.dumps(ends), None))


def _key(keys: Sequence[pa.Array], at: int) -> tuple[object, ...]:
    return tuple(key[at].as_py() for key in keys)


def fault_row(partition: int, number: int, fault: str) -> pa.RecordBatch:
    """A row of FIELDS that has a fault instead of a block."""
    return _row(partition, number, (None, 0, None, fault))


def _row(partition: int, number: int, rest: tuple[bytes | None, int, bytes | None, str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([value], kind) for value, kind in zip((partition, number, *rest), _TYPES, strict=True)],
        names=["partition", "block", "counted", "size", "keys", "fault"],
    )


def null_fault(names: Sequence[str], keys: Sequence[pa.Array]) -> str | None:
    """The fault if a key has no value; None if all have one."""
    return next((f"{NULL}:{name}" for name, key in zip(names, keys, strict=True) if key.null_count), None)


def data_of(number: int) -> str:
    """The column with the rows of an input."""
    return f"data_{number}"


class _BlockOrder:
    """Checks whether a partition's rows are in order, and where the order begins anew, as with a new file."""

    def __init__(self, gatherer: BlockGatherer) -> None:
        self._gatherer = gatherer
        self._rows, self._breaks = 0, 0
        self._last: tuple[object, ...] | None = None

    def check(self, keys: Sequence[pa.Array]) -> tuple[str | None, list[int]]:
        """The fault in the next rows, if there is one, and the places in them where a block must end."""
        if fault := null_fault(self._gatherer.keys, keys):
            return fault, []
        if self._gatherer.is_sorted:
            return (self._twice(keys) if self._gatherer.is_sequence else None), []
        less, equal = steps(keys)
        ends = (np.flatnonzero(~less) + 1).tolist()
        self._rows += len(keys[0])
        self._breaks += len(ends)
        is_unordered = equal.any() or self._breaks > BREAKS + self._rows // ROWS_A_BREAK
        return (UNORDERED, []) if is_unordered else (None, ends)

    def _twice(self, keys: Sequence[pa.Array]) -> str | None:
        """The fault if two rows have the same key, also in different blocks."""
        _, equal = steps(keys)
        first = _key(keys, 0)
        before, self._last = self._last, _key(keys, -1)
        if before == first:
            return f"{TWICE}:{first[0]}"
        return f"{TWICE}:{keys[0][int(np.argmax(equal))].as_py()}" if equal.any() else None


def steps(keys: Sequence[pa.Array]) -> tuple[Flags, Flags]:
    """Whether each row's successor among n rows is greater, and whether it is equal, by the keys; (n - 1,) each."""
    rows = max(len(keys[0]) - 1, 0)
    less, equal = np.zeros(rows, np.bool_), np.ones(rows, np.bool_)
    for key in keys:
        here, following = key.slice(0, rows), key.slice(1)
        less |= equal & _flags(_counted.less(here, following))
        equal &= _flags(_counted.equal(here, following))
    return less, equal


def _flags(found: pa.Array) -> Flags:
    flags: Flags = found.to_numpy(zero_copy_only=False)
    return flags


def chunks(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The rows in batches of `rows` rows; the last may be shorter."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        while count >= rows:
            table = pa.Table.from_batches(waiting)
            yield _one(table.slice(0, rows))
            waiting, count = table.slice(rows).to_batches(), count - rows
    if count:
        yield _one(pa.Table.from_batches(waiting))


def _one(table: pa.Table) -> pa.RecordBatch:
    found: pa.RecordBatch = table.combine_chunks().to_batches()[0]
    return found


def packed(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def unpacked(data: pa.Buffer | bytes) -> pa.RecordBatch:
    """The batch that some bytes hold, without a copy."""
    found: pa.RecordBatch = pa.ipc.open_stream(data).read_next_batch()
    return found


@dataclasses.dataclass(frozen=True)
class SparkBlocks:
    """Blocks that Spark holds with their rows, in a DataFrame that has a data column for each input."""

    frame: DataFrame
    inputs: int

    def tasks(self, spark: SparkSession, routes: pa.Table) -> DataFrame:
        """A row for each block that a share reads; routes: each one's share, place, partition and block."""
        joined = self.frame.join(functions.broadcast(spark.createDataFrame(routes)), ["partition", "block"])
        return joined.select("share", "place", *map(data_of, range(self.inputs)))

    @property
    def rows(self) -> SparkBlockRows:
        """The reader from which tasks get their rows."""
        return SparkBlockRows(self.inputs)


@dataclasses.dataclass(frozen=True)
class SparkBlockRows:
    """Reads the rows of `SparkBlocks.tasks`: by share, the rows of each block."""

    inputs: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, BlockRows]]:
        """The blocks in the order in which they come."""
        for batch in batches:
            data = [batch.column(data_of(number)) for number in range(self.inputs)]
            for row, share in enumerate(batch.column("share").to_pylist()):
                yield share, tuple(_unpacked(each[row]) for each in data)


def _unpacked(cell: Any) -> pa.RecordBatch | None:  # noqa: ANN401  (a binary scalar)
    return unpacked(cell.as_buffer()) if cell.is_valid else None
