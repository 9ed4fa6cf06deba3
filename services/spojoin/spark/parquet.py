"""Lets tasks read Parquet files themselves, so that rows of a plain Parquet DataFrame needn't pass through the JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from spojoin.model import Query
from spojoin.spark.gather import FIELDS, UNORDERED, RowCounter, counted_row, fault_row, null_fault, steps, with_key
from spojoin.spark.task import BlockRows, freeze_imports
from spojoin.spark.until import Until

#: The URI of a file, and the number of a row group in it.
RowGroup = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ParquetScan:
    """Row groups of Parquet files with one schema, and the columns to read.

    pieces: (URI of the file, number of the row group) of each; types: the types of the columns to read
    keys: the columns that order rows; key_type: the type of the stream's key, None if it has none
    until: the place in the order before which rows are answered
    """

    query: Query
    pieces: tuple[RowGroup, ...]
    types: pa.Schema
    read: tuple[str, ...]
    keys: tuple[str, ...]
    key_type: pa.DataType | None
    block_rows: int
    until: Until | None

    def frame(self, spark: SparkSession) -> DataFrame:
        """The blocks of all row groups, with their counts and without their rows."""
        pieces = pa.table(
            {
                "partition": pa.array(range(len(self.pieces)), pa.int32()),
                "path": pa.array([path for path, _ in self.pieces], pa.string()),
                "group": pa.array([group for _, group in self.pieces], pa.int64()),
            }
        )
        cores = spark.sparkContext.defaultParallelism
        spread = spark.createDataFrame(pieces).repartition(min(max(len(self.pieces), 1), 4 * cores))
        return spread.mapInArrow(self._in_tasks._counted, FIELDS)

    def tasks(self, spark: SparkSession, routes: pa.Table) -> DataFrame:
        """A row for each block that a share reads; routes: each one's share, place, partition and block."""
        chosen = [self.pieces[number] for number in routes["partition"].to_pylist()]
        named = routes.append_column("path", pa.array([path for path, _ in chosen], pa.string()))
        return spark.createDataFrame(named.append_column("group", pa.array([group for _, group in chosen], pa.int64())))

    @property
    def rows(self) -> Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[int, BlockRows]]]:
        """The reader from which tasks get their rows."""
        return self._in_tasks._rows

    @property
    def _in_tasks(self) -> ParquetScan:
        """The scan for tasks, without the long list of row groups: a task's rows name those that it reads."""
        return replace(self, pieces=())

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, BlockRows]]:
        """The rows of the blocks that these rows of `tasks` name, in order, each with its share."""
        reading = _RowGroupReading(self)
        for batch in batches:
            for row in batch.to_pylist():
                yield row["share"], (self._given(reading.block(row["path"], row["group"], row["block"])),)

    def batches(self, path: str, group: int) -> Iterator[pa.RecordBatch]:
        """The blocks of a row group, with the columns that are read and those that order rows."""
        system, name = fs.FileSystem.from_uri(path)
        with system.open_input_file(name) as file:
            reader = pq.ParquetFile(file)
            for batch in reader.iter_batches(self.block_rows, row_groups=[group], columns=self.types.names):
                yield batch.select(self.types.names).cast(self.types)

    def _counted(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        counter = RowCounter(self.query, self.until)
        for batch in pieces:
            for piece in batch.to_pylist():
                for number, rows in enumerate(self.batches(piece["path"], piece["group"])):
                    yield self._row(piece["partition"], number, rows, counter)

    def _row(self, partition: int, number: int, rows: pa.RecordBatch, counter: RowCounter) -> pa.RecordBatch:
        keys = [rows.column(key) for key in self.keys]
        fault = null_fault(self.keys, keys)
        if fault is None and not steps(keys)[0].all():
            fault = UNORDERED
        if fault is not None:
            return fault_row(partition, number, fault)
        return counted_row(partition, number, keys, counter.count((self._given(rows),), keys[0]), rows.nbytes)

    def _given(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A block in the form that the engine takes."""
        return with_key(rows.select(list(self.read)), self.query.inputs[0], self.key_type)


class _RowGroupReading:
    """Reads consecutive blocks without opening a row group again for each."""

    def __init__(self, scan: ParquetScan) -> None:
        self._scan = scan
        self._at: tuple[str, int, int] | None = None
        self._batches: Iterator[pa.RecordBatch] = iter(())

    def block(self, path: str, group: int, number: int) -> pa.RecordBatch:
        if self._at is None or self._at[:2] != (path, group) or self._at[2] > number:
            self._batches, self._at = self._scan.batches(path, group), (path, group, 0)
        for _ in range(number - self._at[2]):
            next(self._batches)
        self._at = path, group, number + 1
        return next(self._batches)


def parquet_scan(frame: DataFrame, columns: Mapping[str, str]) -> tuple[tuple[RowGroup, ...], pa.Schema] | None:
    """The row groups of the Parquet files that a DataFrame consists of, and the types of some of its columns.

    None for any other DataFrame, whose rows then pass through Spark.
    """
    types = to_arrow_schema(frame.select([frame[f"`{name}`"] for name in columns]).schema)
    if not _is_plain_scan(frame):
        return None
    pieces: list[RowGroup] = []
    try:
        for uri in sorted(frame.inputFiles()):
            system, name = fs.FileSystem.from_uri(uri)
            with system.open_input_file(name) as file:
                found = pq.ParquetFile(file)
                if not _fits(found.schema_arrow, types):
                    return None
                pieces += [(uri, group) for group in range(found.num_row_groups)]
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None  # Spark reaches the file system, but Arrow doesn't
    return tuple(pieces), types


def _is_plain_scan(frame: DataFrame) -> bool:
    """Whether a DataFrame is the unchanged result of `spark.read.parquet` for files without partitions."""
    try:
        plan = frame._jdf.queryExecution().analyzed()
        if plan.getClass().getSimpleName() != "LogicalRelation":
            return False
        relation = plan.relation()
        if relation.getClass().getSimpleName() != "HadoopFsRelation" or not relation.partitionSchema().isEmpty():
            return False
        return str(relation.fileFormat().getClass().getSimpleName()) == "ParquetFileFormat"
    except (AttributeError, Py4JError):
        return False  # Spark Connect has no such plan


def _fits(found: pa.Schema, types: pa.Schema) -> bool:
    """Whether a file has the columns, in types that Arrow converts to Spark's without loss."""
    names = found.names
    return all(names.count(field.name) == 1 and _same(found.field(field.name).type, field.type) for field in types)


def _same(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        return found.unit in ("ms", "us") and (found.tz is None) == (wanted.tz is None)
    is_text = (pa.types.is_string(found) or pa.types.is_large_string(found)) and pa.types.is_string(wanted)
    return bool(found == wanted or is_text)
