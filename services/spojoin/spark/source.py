"""Spark's data source `spojoin`: the results of a served query as rows, exactly once by their offsets in Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from spojoin.spark.source_range import RangeReading, all_results_of, check_retained, results_of

#: Offsets of a task, unless the user says otherwise: some megabytes, so that starting the task is little of its work.
TASK_OFFSETS = 512
#: Rows handed to Spark at once, at least.
BATCH_ROWS = 1 << 16

#: A stream's position in checkpoints: the topic's id, and the offset of the next result; of several partitions, the
#: offset in the first one, and a list of those in the others.
Offset = dict[str, Any]


class OffsetRange(InputPartition):
    """The offsets [begin, end) of a partition of the results, which one task reads."""

    def __init__(self, partition: int, begin: int, end: int) -> None:
        super().__init__((partition, begin, end))
        self.partition, self.begin, self.end = partition, begin, end


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
            source = results_of(self.options.query, offsets.partition)
            answers = RangeReading(log, source, offsets.begin, offsets.end).answers()
            wanted = (each for each in answers if self.options.generation in (None, each.generation))
            rows = (columns.of(each.rows, each.generation) for each in wanted if each.rows.num_rows)
            yield from columns.together(rows, BATCH_ROWS)

    def divided(self, begins: Sequence[int], ends: Sequence[int]) -> list[OffsetRange]:
        """The ranges of the tasks that read a range of each partition, in order."""
        spans = list(enumerate(zip(begins, ends, strict=True)))
        return [each for partition, (begin, end) in spans for each in self._divided(partition, begin, end, len(spans))]

    def _divided(self, partition: int, begin: int, end: int, partitions: int) -> list[OffsetRange]:
        offsets, wanted = end - begin, self.options.partitions_min
        count = -(-offsets // TASK_OFFSETS) if wanted is None else -(-wanted // partitions)
        count = max(1, min(count, offsets))
        bounds = [begin + offsets * number // count for number in range(count + 1)]
        return [OffsetRange(partition, bounds[number], bounds[number + 1]) for number in range(count)]


class BatchResults(DataSourceReader):
    """Reads the results that exist when the reading is planned."""

    def __init__(self, task: ResultsTask) -> None:
        self._task = task

    def partitions(self) -> list[OffsetRange]:
        """The range that each task reads."""
        with closing(KafkaLog(self._task.options.kafka)) as log:
            bounds = [log.bounds(source) for source in all_results_of(log, self._task.options.query)]
        return self._task.divided([each.earliest for each in bounds], [each.end for each in bounds])

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
        log = self._open()
        bounds = [log.bounds(source) for source in all_results_of(log, self._task.options.query)]
        return self._offset([each.end if self._task.options.starts_late else each.earliest for each in bounds])

    def latestOffset(self) -> Offset:  # noqa: N802  (Spark's name)
        """The offset up to which it is decided which records are results."""
        log = self._open()
        ends = [log.end(source) for source in all_results_of(log, self._task.options.query)]
        if not self._latest or ends != _offsets(self._latest, len(ends)):
            self._latest = self._offset(ends)
        return self._latest

    def partitions(self, start: Offset, end: Offset) -> list[OffsetRange]:
        """The range that each task of a micro-batch reads. Raises BadData if the results are gone."""
        self._check(start, end)
        ends = _offsets(end, 1)
        begins = _offsets(start, len(ends))
        for partition, (begin, before) in enumerate(zip(begins, ends, strict=True)):
            check_retained(self._open(), results_of(self._task.options.query, partition), begin, before)
        return self._task.divided(begins, ends)

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

    def _offset(self, offsets: Sequence[int]) -> Offset:
        first, *others = offsets
        place = {"topic": self._open().topic_id(self._source.topic), "offset": first}
        return {**place, "others": others} if others else place

    def _check(self, start: Offset, end: Offset) -> None:
        """Raise BadData if a checkpoint belongs to another topic than the existing one."""
        if {start["topic"], end["topic"]} != {self._open().topic_id(self._source.topic)}:
            raise BadData(
                f"{self._source.topic} was deleted and made anew since this stream's checkpoint was written: begin "
                "again with a new checkpoint"
            )


def _offsets(place: Offset, partitions: int) -> list[int]:
    """A checkpoint's offset in each partition; those that were added since begin at 0."""
    known = [place["offset"], *place.get("others", ())]
    return [*known, *[0] * (partitions - len(known))]
