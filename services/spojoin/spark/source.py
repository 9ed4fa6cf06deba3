"""Spark's data source `spojoin`: the results of a served query as rows, exactly once by their offsets in Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from spojoin.errors import BadData, ConfigurationError
from spojoin.ports.kafka import KafkaLog
from spojoin.spark.source_columns import ReadColumns, columns_of
from spojoin.spark.source_options import SourceOptions, checked_options
from spojoin.spark.source_range import RangeReading, check_retained, results_of

#: Offsets of a task, unless the user says otherwise: some megabytes, so that starting the task is little of its work.
TASK_OFFSETS = 512
#: Rows handed to Spark at once, at least.
BATCH_ROWS = 1 << 16

#: A stream's position in checkpoints: the topic's id, and the offset of the next result.
Offset = dict[str, Any]


class OffsetRange(InputPartition):
    """The offsets [begin, end) of the results, which one task reads."""

    def __init__(self, begin: int, end: int) -> None:
        super().__init__((begin, end))
        self.begin, self.end = begin, end


class ResultsSource(DataSource):
    """`format("spojoin")`, for `spark.read` and `spark.readStream`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "spojoin"

    def schema(self) -> StructType:
        """The columns of the results. Raises ConfigurationError if options are wrong, or there is no such query."""
        options = checked_options(self.options)
        with closing(KafkaLog(options.kafka)) as log:
            return columns_of(log, options)

    def reader(self, schema: StructType) -> BatchResults:
        """The reader of all results that exist when the reading is planned."""
        options = checked_options(self.options)
        if options.starts_late:
            raise ConfigurationError(
                "option 'startingOffsets' is 'latest': a batch read gives the results that are there, so leave it out, "
                "or use spark.readStream"
            )
        return BatchResults(ResultsTask(options, schema))

    def streamReader(self, schema: StructType) -> ResultsStream:  # noqa: N802  (Spark's name)
        """Results as they come."""
        return ResultsStream(ResultsTask(checked_options(self.options), schema))


@dataclass(frozen=True, slots=True)
class ResultsTask:
    """What every task of a reading needs to know."""

    options: SourceOptions
    columns: StructType

    def read(self, offsets: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range of offsets, in order, as Arrow batches. Raises as `RangeReading.answers` does."""
        assert isinstance(offsets, OffsetRange), "partitions come from here"
        columns = ReadColumns(self.columns, self.options.query)
        with closing(KafkaLog(self.options.kafka)) as log:
            answers = RangeReading(log, results_of(self.options.query), offsets.begin, offsets.end).answers()
            wanted = (each for each in answers if self.options.generation in (None, each.generation))
            rows = (columns.of(each.rows, each.generation) for each in wanted if each.rows.num_rows)
            yield from columns.together(rows, BATCH_ROWS)

    def divided(self, begin: int, end: int) -> list[OffsetRange]:
        """The ranges of the tasks that read a range, in order."""
        offsets = end - begin
        count = self.options.partitions_min or -(-offsets // TASK_OFFSETS)
        count = max(1, min(count, offsets))
        bounds = [begin + offsets * number // count for number in range(count + 1)]
        return [OffsetRange(bounds[number], bounds[number + 1]) for number in range(count)]


class BatchResults(DataSourceReader):
    """Reads the results that exist when the reading is planned."""

    def __init__(self, task: ResultsTask) -> None:
        self._task = task

    def partitions(self) -> list[OffsetRange]:
        """The range that each task reads."""
        with closing(KafkaLog(self._task.options.kafka)) as log:
            bounds = log.bounds(results_of(self._task.options.query))
        return self._task.divided(bounds.earliest, bounds.end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return self._task.read(partition)


class ResultsStream(DataSourceStreamReader):
    """Reads results as they come; checkpoints hold only offsets."""

    def __init__(self, task: ResultsTask) -> None:
        self._task = task
        self._source = results_of(task.options.query)
        self._log: KafkaLog | None = None
        self._latest: Offset = {}

    def initialOffset(self) -> Offset:  # noqa: N802  (Spark's name)
        """Where a stream without a checkpoint begins."""
        bounds = self._open().bounds(self._source)
        return self._offset(bounds.end if self._task.options.starts_late else bounds.earliest)

    def latestOffset(self) -> Offset:  # noqa: N802  (Spark's name)
        """The offset up to which it is decided which records are results."""
        end = self._open().end(self._source)
        if end != self._latest.get("offset"):
            self._latest = self._offset(end)
        return self._latest

    def partitions(self, start: Offset, end: Offset) -> list[OffsetRange]:
        """The range that each task of a micro-batch reads. Raises BadData if the results are gone."""
        self._check(start, end)
        check_retained(self._open(), self._source, start["offset"], end["offset"])
        return self._task.divided(start["offset"], end["offset"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return self._task.read(partition)

    def stop(self) -> None:
        """Close the connection to Kafka."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _open(self) -> KafkaLog:
        self._log = self._log or KafkaLog(self._task.options.kafka)
        return self._log

    def _offset(self, offset: int) -> Offset:
        return {"topic": self._open().topic_id(self._source.topic), "offset": offset}

    def _check(self, start: Offset, end: Offset) -> None:
        """Raise BadData if a checkpoint belongs to another topic than the existing one."""
        if {start["topic"], end["topic"]} != {self._open().topic_id(self._source.topic)}:
            raise BadData(
                f"{self._source.topic} was deleted and made anew since this stream's checkpoint was written: begin "
                "again with a new checkpoint"
            )
