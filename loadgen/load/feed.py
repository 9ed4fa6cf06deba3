"""The PySpark Structured Streaming feed: files, tables and generated rows into Kafka input topics.

Order: a row's place within its Kafka partition is its place in the source. Each micro-batch reads one file of a source
(or one slice of the rate source) in one task, and a task hands its rows in order to one Kafka producer, which keeps the
order.

Delivery: Spark's Kafka sink writes each row once on a healthy run, and again if a task or the whole feed is retried:
delivery is at least once. Both the join and the checker treat such a row as one more input row.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own convention)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from loadgen.load import workloads
from loadgen.load.formats import FileFormat, MessageFormat
from loadgen.load.messages import ipc_bytes
from loadgen.load.spark import Kafka
from spojoin.errors import ConfigurationError

__all__ = [
    "Feed",
    "FileFormat",
    "MessageFormat",
    "Pace",
    "Schedule",
    "Target",
    "feed_files",
    "feed_rate",
    "feed_table",
    "feed_tables",
    "ipc_bytes",
]

PARTITION = "_partition"
#: Rows of a staged file when the feed runs as fast as possible: large enough that a micro-batch's cost is negligible.
FILE_ROWS = 65_536
#: Micro-batches a second of a paced replay: with fewer, rows come in bursts and queue.
PACED_BATCHES_PER_SECOND = 8.0
#: Kafka's default is to send at once, which makes requests of a few rows each.
_PRODUCER = {"kafka.linger.ms": "5", "kafka.batch.size": str(1 << 18)}
_MESSAGE = StructType([StructField("partition", IntegerType()), StructField("value", BinaryType())])


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of a table's replay: `rows_per_second`, `time_factor` times event time, or full speed.

    `time` names the event-time column (ISO text or integer milliseconds) that `time_factor` needs. With
    `rows_per_second` it aligns several tables by event time.
    """

    rows_per_second: float | None = None
    time_factor: float | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        if self.rows_per_second is not None and self.time_factor is not None:
            raise ValueError("a pace is rows_per_second or time_factor, not both")
        if self.time_factor is not None and self.time is None:
            raise ValueError("time_factor needs the name of the event-time column")
        for name in ("rows_per_second", "time_factor"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is {value}; it must be above 0")

    @property
    def is_full_speed(self) -> bool:
        """Whether only Spark and Kafka limit the feed's rate."""
        return self.rows_per_second is None and self.time_factor is None


@dataclass(frozen=True, slots=True)
class Target:
    """The target of rows: a topic, its number of partitions, and the format of messages."""

    kafka: Kafka
    topic: str
    partitions: int = 1
    message: MessageFormat = MessageFormat.JSON
    rows_per_message: int = 4096


class Schedule(StrEnum):
    """The trigger of micro-batches: as fast as possible until the end, at the pace of staged files, or endlessly."""

    AT_ONCE = "at once"
    PACED = "paced"
    ENDLESS = "endless"

    def triggered(self, writer: DataStreamWriter) -> DataStreamWriter:
        if self is Schedule.AT_ONCE:
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=f"{round(1000 / PACED_BATCHES_PER_SECOND)} milliseconds")


@dataclass(slots=True)
class Feed:
    """A running feed. `folder` holds its checkpoint and staged files until it ends."""

    query: StreamingQuery
    folder: Path
    schedule: Schedule

    def wait(self) -> None:
        """Block until the whole source is in the topic (forever if it is endless), then end the feed.

        Raises the error that ended it early, if any.
        """
        if self.schedule is Schedule.PACED:
            self.query.processAllAvailable()
        else:
            self.query.awaitTermination()
        self.stop()

    def stop(self) -> None:
        """End the feed and remove its files; raises the error that ended it, if any."""
        self.query.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        error = self.query.exception()
        if error is not None:
            raise error

    @property
    def rows(self) -> int:
        """Rows read so far."""
        return sum(int(p["numInputRows"]) for p in self.query.recentProgress)


# --- sources ----------------------------------------------------------------------------------------------------------


def feed_table(spark: SparkSession, table: pa.Table, target: Target, pace: Pace | None = None) -> Feed:
    """Replay a table in its order; row i goes to partition i modulo the partitions."""
    return feed_tables(spark, [(table, target)], pace)


def feed_tables(spark: SparkSession, tables: Sequence[tuple[pa.Table, Target]], pace: Pace | None = None) -> Feed:
    """Replay tables together, each as `feed_table` does; all targets are in the same Kafka.

    A micro-batch takes a piece of each, so no table runs ahead. If the pace names event time, the pieces have the same
    times; otherwise they are proportional to the tables' sizes, so that all end together.
    """
    pace, folder = pace or Pace(), _new_folder()
    cuts = _cuts([table for table, _ in tables], pace)
    messages = []
    for number, (table, target) in enumerate(tables):
        rows = folder / f"rows-{number}"
        _stage(table, cuts[number], rows, target.partitions)
        source = (
            spark.readStream.schema(spark.read.parquet(str(rows)).schema)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(rows))
        )
        messages.append(_messages(source, target))
    schedule = Schedule.AT_ONCE if pace.is_full_speed else Schedule.PACED
    return _launch(reduce(DataFrame.union, messages), tables[0][1].kafka, folder, schedule)


def feed_files(spark: SparkSession, source: Path, file_format: FileFormat, target: Target) -> Feed:
    """Send a folder's files, oldest first, row by row in their order; a row's hash chooses its partition.

    JSON lines sent as JSON, and CSV (with a header line) sent as CSV, go unchanged, byte for byte.
    """
    if not source.is_dir():
        raise ConfigurationError(f"{source} is not a folder; the files feed reads all {file_format} files of a folder")
    folder = _new_folder()
    if file_format.value == target.message.value:
        lines = _lines(spark, source, skip_header=file_format is FileFormat.CSV)
        messages = lines.select(_by_hash(["value"], target).alias("partition"), "value")
        return _launch(_addressed(messages, target), target.kafka, folder)
    reader = spark.readStream.option("maxFilesPerTrigger", 1).option("header", True)
    schema = _inferred(spark, source, file_format)
    rows = reader.schema(schema).format(file_format.value).load(str(source))
    return _start(rows, _by_hash(schema.names, target), target, folder)


def feed_rate(spark: SparkSession, workload: str, rows_per_second: int, target: Target, *, seed: int = 0) -> Feed:
    """Generate a synthetic workload at a rate, endlessly; `ts` is the time of generation, in milliseconds."""
    ticks = spark.readStream.format("rate").option("rowsPerSecond", rows_per_second).option("numPartitions", 1).load()
    schema = "id long, ts long, a double, b double"
    rows = ticks.mapInArrow(_generator(workload, seed), schema)
    return _start(rows, (F.col("id") % target.partitions).cast("int"), target, _new_folder(), Schedule.ENDLESS)


def _generator(workload: str, seed: int) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def generate(ticks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for tick in ticks:
            if tick.num_rows:
                now = tick["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
                rows = workloads.generate(workload, tick.num_rows, seed=seed, first=tick["value"][0].as_py())
                yield from rows.set_column(1, "ts", now).combine_chunks().to_batches()

    return generate


def _by_hash(columns: Sequence[str], target: Target) -> Column:
    return F.pmod(F.xxhash64(*columns), F.lit(target.partitions)).cast("int")


def _lines(spark: SparkSession, source: Path, *, skip_header: bool) -> DataFrame:
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(source))
    if skip_header:
        # Every CSV file of the folder begins with the same header, which is not a row.
        header = spark.read.text(str(source)).first()
        lines = lines.where(F.col("value") != F.lit("" if header is None else header[0]))
    return lines


def _inferred(spark: SparkSession, source: Path, file_format: FileFormat) -> StructType:
    return (
        spark.read.option("header", True).option("inferSchema", True).format(file_format.value).load(str(source)).schema
    )


# --- staging a table --------------------------------------------------------------------------------------------------


def _cuts(tables: Sequence[pa.Table], pace: Pace) -> list[Sequence[int]]:
    """For each table, the row numbers at which staged files begin, and the end."""
    if pace.time is not None and (pace.time_factor is not None or len(tables) > 1):
        times_ms = [np.maximum.accumulate(_times_ms(table, pace.time)) for table in tables]
        edges_ms = _edges_ms(np.sort(np.concatenate(times_ms)), pace)
        return [[*np.searchsorted(each, edges_ms).tolist(), len(each)] for each in times_ms]
    total = sum(table.num_rows for table in tables)
    steps = [_rows_of_piece(pace, table.num_rows / max(1, total)) for table in tables]
    return [[*range(0, table.num_rows, step), table.num_rows] for table, step in zip(tables, steps, strict=True)]


def _edges_ms(times_ms: NDArray[np.int64], pace: Pace) -> NDArray[np.float64]:
    """The event times at which pieces begin; times_ms: of all rows, ascending."""
    if not len(times_ms):
        return np.zeros(0)
    if pace.time_factor is not None:
        span_ms = 1000.0 * pace.time_factor / PACED_BATCHES_PER_SECOND
        return np.arange(times_ms[0], times_ms[-1] + 1, span_ms)
    return np.unique(times_ms[:: _rows_of_piece(pace, 1.0)]).astype(np.float64)


def _rows_of_piece(pace: Pace, share: float) -> int:
    """The number of a piece's rows from a table with this share of all rows."""
    if pace.rows_per_second is None:
        return FILE_ROWS
    return max(1, round(share * pace.rows_per_second / PACED_BATCHES_PER_SECOND))


def _times_ms(table: pa.Table, column: str) -> NDArray[np.int64]:
    times = table[column]
    if pa.types.is_string(times.type):
        times = times.cast(pa.timestamp("ms", "UTC"))
    found: NDArray[np.int64] = times.cast(pa.int64()).to_numpy()
    return found


def _stage(table: pa.Table, cuts: Sequence[int], folder: Path, partitions: int) -> None:
    """Write the table as files, whose modification times tell Spark their order."""
    folder.mkdir()
    numbered = table.append_column(PARTITION, pa.array((np.arange(table.num_rows) % partitions).astype(np.int32)))
    for number, (begin, end) in enumerate(itertools.pairwise(cuts)):
        path = folder / f"{number:09d}.parquet"
        pq.write_table(numbered.slice(begin, end - begin), path)
        # The file source orders by modification time; times a second apart stay distinct after rounding.
        os.utime(path, (number, number))


# --- rows to messages -------------------------------------------------------------------------------------------------


def _start(
    rows: DataFrame, partition: Column, target: Target, folder: Path, schedule: Schedule = Schedule.AT_ONCE
) -> Feed:
    return _launch(_messages(rows.withColumn(PARTITION, partition), target), target.kafka, folder, schedule)


def _messages(rows: DataFrame, target: Target) -> DataFrame:
    return _addressed(_encoded(rows, target), target)


def _addressed(messages: DataFrame, target: Target) -> DataFrame:
    """Add the topic to partition and value; Spark's sink sends each row by these."""
    return messages.withColumn("topic", F.lit(target.topic))


def _encoded(rows: DataFrame, target: Target) -> DataFrame:
    names = [name for name in rows.columns if name != PARTITION]
    if target.message is MessageFormat.ARROW:
        return rows.mapInArrow(_arrow_encoder(target.rows_per_message), _MESSAGE)
    row = F.struct(*names)
    # Without this option, messages would lack null fields.
    value = F.to_json(row, {"ignoreNullFields": "false"}) if target.message is MessageFormat.JSON else F.to_csv(row)
    return rows.select(F.col(PARTITION).alias("partition"), value.alias("value"))


def _arrow_encoder(rows_per_message: int) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    schema = pa.schema([("partition", pa.int32()), ("value", pa.binary())])

    def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            messages = [
                (partition, ipc_bytes(rows.slice(at, rows_per_message)))
                for partition, rows in _by_partition(batch)
                for at in range(0, rows.num_rows, rows_per_message)
            ]
            yield pa.RecordBatch.from_pylist([{"partition": p, "value": v} for p, v in messages], schema)

    return encode


def _by_partition(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    at = batch.schema.get_field_index(PARTITION)
    partitions, rows = batch.column(at).to_numpy(), batch.remove_column(at)
    for partition in np.unique(partitions):
        yield int(partition), rows.filter(pa.array(partitions == partition))


# --- starting ---------------------------------------------------------------------------------------------------------


def _launch(messages: DataFrame, kafka: Kafka, folder: Path, schedule: Schedule = Schedule.AT_ONCE) -> Feed:
    writer = messages.writeStream.format("kafka").options(**_PRODUCER | kafka.options())
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return Feed(schedule.triggered(writer).start(), folder, schedule)


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="spojoin-feed-"))
