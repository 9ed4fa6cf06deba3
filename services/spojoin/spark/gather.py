"""Gathers rows into blocks, in each of Spark's partitions: their bytes, what they hold, and whether they are in order.

A block travels through Spark as one row, so that what follows costs nothing a row of the history.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession, functions

from spojoin.embedded.inputs import with_key_type
from spojoin.model import Query, Stream
from spojoin.spark.counting import BlockCount, RowCounter
from spojoin.spark.python_worker import settle
from spojoin.spark.task import BlockRows
from spojoin.spark.until import Until

#: Columns that every block has: where it was gathered, what it holds, its first and last key; or what is wrong.
FIELDS = "partition int, block long, counted binary, size long, keys binary, fault string"
UNORDERED, NULL, TWICE = "unordered", "null", "twice"

#: Breaks of the order in a partition that are taken as ends of files, and the rows for each further one.
BREAKS, ROWS_A_BREAK = 64, 100_000

_counted: Any = pc
Flags = NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, slots=True)
class BlockGatherer:
    """Turns the rows of a partition into blocks.

    columns: of each input, by the name in it the name of the column here; keys: the columns that order rows
    key_types: of inputs whose rows have a key
    is_sorted: whether Spark has put the rows in order; is_sequence: whether no two rows may have one key
    until: the place in the order before which rows answer; None for all
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
        """The columns of blocks, in Spark's words."""
        return ", ".join([FIELDS, *(f"{data_of(number)} binary" for number in range(len(self.columns)))])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The blocks of a partition, each as a batch of one row; where something is wrong that alone, and the end."""
        settle()
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
        return keyed(batch, self.query.inputs[number], self.key_types.get(number))


def keyed(rows: pa.RecordBatch, stream: Stream, key_type: pa.DataType | None) -> pa.RecordBatch:
    """A stream's rows with their key, if they have one, in the type that all its keys have."""
    return rows if stream.key is None or key_type is None else with_key_type(rows, stream.key, key_type, stream.name)


def counted_row(partition: int, number: int, keys: Sequence[pa.Array], count: BlockCount, size: int) -> pa.RecordBatch:
    """A block as a row of FIELDS; keys: its rows' columns of the order, of which the first and the last row stay."""
    ends = tuple(_key(keys, at) for at in (0, -1))
    return _row(partition, number, (orjson.dumps(dataclasses.asdict(count)), size, pickle.dumps(ends), None))


def _key(keys: Sequence[pa.Array], at: int) -> tuple[object, ...]:
    return tuple(key[at].as_py() for key in keys)


def fault_row(partition: int, number: int, fault: str) -> pa.RecordBatch:
    """What is wrong, in place of a block."""
    return _row(partition, number, (None, 0, None, fault))


def _row(partition: int, number: int, rest: tuple[bytes | None, int, bytes | None, str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([value], kind) for value, kind in zip((partition, number, *rest), _TYPES, strict=True)],
        names=["partition", "block", "counted", "size", "keys", "fault"],
    )


_TYPES = (pa.int32(), pa.int64(), pa.binary(), pa.int64(), pa.binary(), pa.string())


def null_fault(names: Sequence[str], keys: Sequence[pa.Array]) -> str | None:
    """What is wrong where a key has no value."""
    return next((f"{NULL}:{name}" for name, key in zip(names, keys, strict=True) if key.null_count), None)


#: The column that says which input a row is of, where there are two.
INPUT = "input"


def data_of(number: int) -> str:
    """The column with the rows of an input."""
    return f"data_{number}"


class _BlockOrder:
    """Whether the rows of a partition come in order, and where they begin anew, as files do."""

    def __init__(self, gatherer: BlockGatherer) -> None:
        self._gatherer = gatherer
        self._rows, self._breaks = 0, 0
        self._last: tuple[object, ...] | None = None

    def check(self, keys: Sequence[pa.Array]) -> tuple[str | None, list[int]]:
        """What is wrong with the next rows, or where in them a block must end."""
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
        """A key that two rows have; between blocks as well."""
        _, equal = steps(keys)
        first = _key(keys, 0)
        before, self._last = self._last, _key(keys, -1)
        if before == first:
            return f"{TWICE}:{first[0]}"
        return f"{TWICE}:{keys[0][int(np.argmax(equal))].as_py()}" if equal.any() else None


def steps(keys: Sequence[pa.Array]) -> tuple[Flags, Flags]:
    """Of n rows, (n - 1,) each: whether the next one is greater, and whether it is equal, in the order of the keys."""
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
    """The same rows in batches of so many; the last may be shorter."""
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
    """A batch as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def unpacked(data: pa.Buffer | bytes) -> pa.RecordBatch:
    """The batch of some bytes, without a copy."""
    found: pa.RecordBatch = pa.ipc.open_stream(data).read_next_batch()
    return found


@dataclasses.dataclass(frozen=True)
class SparkBlocks:
    """Blocks that Spark holds with their rows: as rows of a DataFrame with the data of each of so many inputs."""

    frame: DataFrame
    inputs: int

    def tasks(self, spark: SparkSession, routes: pa.Table) -> DataFrame:
        """One row for each block that a share reads; routes: share, place, partition and block of each."""
        joined = self.frame.join(functions.broadcast(spark.createDataFrame(routes)), ["partition", "block"])
        return joined.select("share", "place", *map(data_of, range(self.inputs)))

    @property
    def rows(self) -> SparkBlockRows:
        """What tasks have their rows from."""
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
