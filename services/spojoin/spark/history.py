"""A query over a history: gathered into blocks, divided into shares, answered by Spark's tasks."""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.storagelevel import StorageLevel

from spojoin.embedded.batches import one_batch
from spojoin.embedded.writers import common_key_type, result_schema
from spojoin.errors import BadData, ConfigurationError
from spojoin.explain.footprint import SetupSizes, expected_state
from spojoin.model import Output, Query
from spojoin.spark.blocks import HistoryBlocks
from spojoin.spark.gather import (
    NULL,
    TWICE,
    BlockCount,
    BlockGatherer,
    RowCounter,
    SparkBlocks,
    blocks_of,
    packed,
    unpacked,
)
from spojoin.spark.history_query import FrameQuery
from spojoin.spark.ordering import InputOrder, OrderedRows
from spojoin.spark.parquet import ParquetScan, parquet_scan
from spojoin.spark.session import HistorySettings
from spojoin.spark.shares import Division, HistoryShare, ShareLimits, WindowReach
from spojoin.spark.task import BlockRows, ShareWork, answer_share, freeze_imports
from spojoin.spark.until import Until

#: Rows of a block: with smaller blocks, tasks read fewer rows outside their windows; larger ones make planning cheaper.
BLOCK_ROWS = 32_768
#: The memory that a task's interpreter and compiled kernels take.
PYTHON_BYTES = 256 << 20

#: The source from which tasks read the rows of blocks.
BlockSource = SparkBlocks | ParquetScan


@dataclass(frozen=True, slots=True)
class GatheredBlocks:
    """The blocks of a history, in order: the source of their rows, their counts, and where each was gathered.

    places: (partition, block) of each; is_sorted: whether Spark had to sort the rows
    """

    source: BlockSource
    blocks: HistoryBlocks
    places: Sequence[tuple[int, int]]
    refused: Mapping[str, int]
    is_sorted: bool


class HistoryJoin:
    """One query over DataFrames. Planning reads their rows once and makes blocks; answering reads the blocks."""

    def __init__(
        self,
        spark: SparkSession,
        asked: FrameQuery,
        orders: Sequence[InputOrder],
        settings: HistorySettings,
        until: Until | None = None,
    ) -> None:
        self.asked = asked
        self.orders = orders
        self._spark = spark
        self._settings = settings
        self._until = until
        self._rows = OrderedRows(asked, orders)

    @cached_property
    def gathered(self) -> GatheredBlocks:
        """The blocks, in the source's order if the rows are in order there, otherwise sorted by Spark."""
        attempts = [self._scanned, self._passed] if len(self.orders) == 1 else []
        for attempt in attempts:
            if (found := attempt()) is not None:
                return found
        partitions = int(self._spark.conf.get("spark.sql.shuffle.partitions") or 200)
        found = self._held(self._rows.sorted(partitions), is_sorted=True)
        assert found is not None, "sorted rows are in order"
        return found

    def _scanned(self) -> GatheredBlocks | None:
        """The blocks of Parquet files, which tasks read themselves; None for other sources."""
        order, columns, read = self.orders[0], self._rows.columns(0), self.asked.columns(0)
        scan = parquet_scan(self.asked.frames[0], columns)
        if scan is None:
            return None
        key_type = self._keyed.get(0)
        source = ParquetScan(self.asked.query, *scan, tuple(read), order.by, key_type, BLOCK_ROWS, self._until)
        return self._gathered(source, source.frame(self._spark), is_sorted=False)

    def _passed(self) -> GatheredBlocks | None:
        return self._held(self._rows.plain(), is_sorted=False)

    def _held(self, rows: DataFrame, *, is_sorted: bool) -> GatheredBlocks | None:
        gatherer = self._gatherer(is_sorted)
        frame = rows.mapInArrow(gatherer, gatherer.schema).persist(StorageLevel.DISK_ONLY)
        found = self._gathered(SparkBlocks(frame, len(self.orders)), frame, is_sorted=is_sorted)
        if found is None:
            frame.unpersist()
        return found

    def _gathered(self, source: BlockSource, frame: DataFrame, *, is_sorted: bool) -> GatheredBlocks | None:
        """The blocks of some rows; None if they aren't in order. Raises BadData if they can't be ordered."""
        rows = _collected(frame.select("partition", "block", "counted", "size", "keys", "fault"))
        faults = [row.fault for row in rows if row.fault]
        if faults:
            self._raise_fault(faults)
            return None
        rows.sort(key=(lambda row: (row.partition, row.block)) if is_sorted else (lambda row: _keys(row)[0]))
        if not is_sorted and not _is_ascending(rows):
            return None
        counts = [BlockCount(**orjson.loads(row.counted)) for row in rows]
        refused: Counter[str] = sum((Counter(each.refused) for each in counts), Counter())
        blocks = blocks_of(counts, [row.size for row in rows], self.asked.query)
        return GatheredBlocks(source, blocks, [(row.partition, row.block) for row in rows], refused, is_sorted)

    @cached_property
    def shares(self) -> list[HistoryShare]:
        """The shares that tasks answer."""
        return self.division.shares()

    @cached_property
    def division(self) -> Division:
        """The division of the blocks into shares."""
        blocks, settings = self.gathered.blocks, self._settings
        cores = self._spark.sparkContext.defaultParallelism
        rows = blocks.rows_of(0, blocks.answering)
        limits = ShareLimits.of(rows, cores, settings.shares, settings.memory_bytes, PYTHON_BYTES + self.state_bytes)
        return Division(self.asked.query, blocks, limits)

    @cached_property
    def _reach(self) -> WindowReach:
        return WindowReach.of(self.asked.query)

    @cached_property
    def window_rows(self) -> int:
        """The most rows before a block that its rows' windows may contain."""
        blocks = self.gathered.blocks
        numbers = np.arange(len(blocks), dtype=np.int64)
        before = blocks.total_before
        return int((before[numbers] - before[self._reach.firsts(blocks, numbers)]).max(initial=0))

    @cached_property
    def state_bytes(self) -> int:
        """The memory that full windows take in a task."""
        sizes = SetupSizes(handover_frames=1, workers=1, window_tuples=max(self.window_rows, 1))
        return sum(each.bytes_each * each.instances for each in expected_state(self.asked.query, sizes))

    def results(self) -> DataFrame:
        """The answers in order; each share's are in a separate partition."""
        tasks, task = self.tasks()
        return tasks.mapInArrow(task, from_arrow_schema(task.schema, prefer_timestamp_ntz=True))

    def tasks(self) -> tuple[DataFrame, ShareTask]:
        """A partition for each share with what its task reads, in order; and the task."""
        ids = _share_ids(self._spark, len(self.shares))
        routed = self.gathered.source.tasks(self._spark, self._routes(ids))
        tasks = routed.repartition(max(len(ids), 1), "share").sortWithinPartitions("share", "place")
        return tasks, self._task(ids)

    def _task(self, ids: Sequence[int]) -> ShareTask:
        query, blocks, table = self.asked.query, self.gathered.blocks, self._table()
        ahead = 0 if table is None else RowCounter(query).count((None, table)).numbered
        works = {ids[number]: ShareWork.of(blocks, share, ahead) for number, share in enumerate(self.shares)}
        schema = _spark_schema(result_schema(query, self._key_types))
        return ShareTask(query, works, None if table is None else packed(table), schema, self.gathered.source.rows)

    def _routes(self, ids: Sequence[int]) -> pa.Table:
        """The blocks that each share reads, and their order."""
        rows = [(ids[n], place) for n, share in enumerate(self.shares) for place in range(share.first, share.last)]
        places = [self.gathered.places[place] for _, place in rows]
        return pa.table(
            {
                "share": pa.array([share for share, _ in rows], pa.int64()),
                "place": pa.array([place for _, place in rows], pa.int64()),
                "partition": pa.array([partition for partition, _ in places], pa.int32()),
                "block": pa.array([block for _, block in places], pa.int64()),
            }
        )

    def _gatherer(self, is_sorted: bool) -> BlockGatherer:
        inputs = range(len(self.orders))
        read = [self.asked.columns(number) for number in inputs]
        columns = [{n: here for n, here in self._rows.columns(i).items() if n in read[i]} for i in inputs]
        is_sequence = len(self.orders) == 1 and self.orders[0].is_sequence
        keys = self._rows.keys
        return BlockGatherer(
            self.asked.query, columns, keys, self._keyed, BLOCK_ROWS, is_sorted, is_sequence, self._until
        )

    def _raise_fault(self, faults: Sequence[str]) -> None:
        for fault in sorted(faults):
            kind, _, what = fault.partition(":")
            if kind == NULL:
                name = self._named(what)
                raise BadData(
                    f"rows without a value in {name} have no place in the order: leave them out, such as by "
                    f'.where("{name} IS NOT NULL")'
                )
            if kind == TWICE:
                column = self.orders[0].by[0]
                raise BadData(
                    f"two rows have {column} {what}: a sequence column numbers each row once; name a further column "
                    f"that decides ties, order_by=['{column}', ...]"
                )

    def _named(self, here: str) -> str:
        """The name that a column of the ordered rows has in its input."""
        for number in range(len(self.orders)):
            for name, found in self._rows.columns(number).items():
                if here in (found, name):
                    return name
        return self.asked.query.inputs[0].time or here

    @cached_property
    def _key_types(self) -> list[pa.DataType]:
        """The types of the keys of all inputs: int64 for integers and positions, otherwise text."""
        types = []
        for stream, frame in zip(self.asked.query.inputs, self.asked.frames, strict=True):
            kind = None if stream.key is None else frame.schema[stream.key].dataType.simpleString()
            types.append(pa.int64() if kind in (None, "tinyint", "smallint", "int", "bigint") else pa.string())
        return [common_key_type(types)] * len(types) if self.asked.query.results.output is Output.COUNT else types

    @property
    def _keyed(self) -> dict[int, pa.DataType]:
        keyed = enumerate(self.asked.query.inputs)
        return {number: self._key_types[number] for number, stream in keyed if stream.key is not None}

    def _table(self) -> pa.RecordBatch | None:
        """All rows of the query's table, if it has one; every task holds all of them."""
        query = self.asked.query
        if not query.has_table:
            return None
        number = len(query.inputs) - 1
        columns = self.asked.columns(number)
        table = self.asked.frames[number].select([functions.col(f"`{name}`") for name in columns]).toArrow()
        return one_batch(table.to_batches(), table.schema)


@dataclass(frozen=True, slots=True)
class ShareTask:
    """Answers the shares in a partition; works: the share's work by its id."""

    query: Query
    works: Mapping[int, ShareWork]
    table: bytes | None
    schema: pa.Schema
    rows: Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[int, BlockRows]]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of all shares, in order."""
        freeze_imports()
        table = None if self.table is None else unpacked(self.table)
        for share, rows in groupby(self.rows(batches), key=lambda row: row[0]):
            for found in answer_share(self.query, self.works[share], (block for _, block in rows), table):
                yield found.cast(self.schema)


def _collected(frame: DataFrame) -> list[Any]:
    try:
        return list(frame.collect())
    except PythonException as error:
        if "No module named 'spojoin'" not in str(error):
            raise
        raise ConfigurationError(
            "the Python that runs Spark's tasks has no spojoin: install it there, or set PYSPARK_PYTHON to an "
            f"interpreter that has it, such as {sys.executable}, before the session starts"
        ) from None


def _keys(row: Any) -> tuple[Any, Any]:  # noqa: ANN401  (a row of blocks)
    found: tuple[Any, Any] = pickle.loads(row.keys)
    return found


def _is_ascending(rows: Sequence[Any]) -> bool:
    """Whether each block ends before the next one begins."""
    keys = [_keys(row) for row in rows]
    return all(before[1] < after[0] for before, after in pairwise(keys))


def _share_ids(spark: SparkSession, shares: int) -> list[int]:
    """Ids with which Spark puts each share into its own partition, in the order of the shares."""
    found: dict[int, int] = {}
    first, size = 0, 16 * shares
    while len(found) < shares:
        numbers = spark.range(first, first + size)
        for row in numbers.select(
            "id", functions.pmod(functions.hash("id"), functions.lit(shares)).alias("to")
        ).collect():
            found.setdefault(row.to, row.id)
        first, size = first + size, 2 * size
    return [found[number] for number in range(shares)]


def _spark_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of results in Spark's types; names of streams are text."""
    return pa.schema(
        [pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
    )
