"""Parquet files that tasks read themselves: a DataFrame that is nothing else needn't pass its rows through the JVM."""

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
from spojoin.spark.counting import RowCounter
from spojoin.spark.gather import FIELDS, UNORDERED, counted_row, fault_row, keyed, null_fault, steps
from spojoin.spark.python_worker import settle
from spojoin.spark.task import BlockRows
from spojoin.spark.until import Until

#: The URI of a file, and the number of a row group in it.
RowGroup = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ParquetScan:
    """Row groups of Parquet files with one schema, of which some columns are read.

    pieces: (URI of the file, number of the row group) of each; types: of the columns that are read
    keys: the columns that order rows; key_type: of the stream's key, None where it has none
    until: the place in the order before which rows answer
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
        """The blocks of all row groups: what each holds, without its rows."""
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
        """One row for each block that a share reads; routes: share, place, partition and block of each."""
        chosen = [self.pieces[number] for number in routes["partition"].to_pylist()]
        named = routes.append_column("path", pa.array([path for path, _ in chosen], pa.string()))
        return spark.createDataFrame(named.append_column("group", pa.array([group for _, group in chosen], pa.int64())))

    @property
    def rows(self) -> Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[int, BlockRows]]]:
        """What tasks have their rows from."""
        return self._in_tasks._rows

    @property
    def _in_tasks(self) -> ParquetScan:
        """The same for tasks, whose rows name the row groups: a long list of all of them needn't go to each."""
        return replace(self, pieces=())

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, BlockRows]]:
        """By share, the rows of the blocks that these rows of `tasks` name, in their order."""
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
        settle()
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
        """A block as the engine takes it."""
        return keyed(rows.select(list(self.read)), self.query.inputs[0], self.key_type)


class _RowGroupReading:
    """Reads blocks one behind another without opening a row group anew for each."""

    def __init__(self, scan: ParquetScan) -> None:
        self._scan = scan
        self._at: tuple[str, int, int] | None = None
        self._batches: Iterator[pa.RecordBatch] = iter(())

    def block(self, path: str, group: int, number: int) -> pa.RecordBatch:
        """A block of a row group."""
        if self._at is None or self._at[:2] != (path, group) or self._at[2] > number:
            self._batches, self._at = self._scan.batches(path, group), (path, group, 0)
        for _ in range(number - self._at[2]):
            next(self._batches)
        self._at = path, group, number + 1
        return next(self._batches)


def scanned(frame: DataFrame, columns: Mapping[str, str]) -> tuple[tuple[RowGroup, ...], pa.Schema] | None:
    """The row groups of the Parquet files that a DataFrame is, and the types of some of its columns.

    None where it is anything else: rows pass through Spark then.
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
        return None  # a file system that Spark reaches and Arrow doesn't
    return tuple(pieces), types


def _is_plain_scan(frame: DataFrame) -> bool:
    """Whether a DataFrame is what `spark.read.parquet` gives of files without partitions, and nothing is done to it."""
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
    """Whether a file has the columns with types that Arrow turns into Spark's without a loss."""
    names = found.names
    return all(names.count(field.name) == 1 and _same(found.field(field.name).type, field.type) for field in types)


def _same(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        return found.unit in ("ms", "us") and (found.tz is None) == (wanted.tz is None)
    is_text = (pa.types.is_string(found) or pa.types.is_large_string(found)) and pa.types.is_string(wanted)
    return bool(found == wanted or is_text)
