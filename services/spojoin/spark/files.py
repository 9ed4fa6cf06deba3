"""Reads DataFrames and writes results in any format and place that Spark knows; tasks write Parquet themselves."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyspark import TaskContext
from pyspark.sql import DataFrame, Observation, SparkSession, functions

from spojoin.embedded.formats import ResultFormat
from spojoin.embedded.writers import open_writer
from spojoin.errors import ConfigurationError
from spojoin.spark.history import HistoryJoin, ShareTask

_FIELDS = "partition int, name string, rows long"

#: Options with which a format reads types, as other readers of this package do, instead of text.
_TYPED = {
    "csv": {"header": "true", "inferSchema": "true"},
    "json": {"inferTimestamp": "true"},
}
_WRITTEN = {"csv": {"header": "true"}}

#: What to do with an existing output, in Spark's words.
MODES = ("error", "overwrite", "append")


def write_parquet(history: HistoryJoin, output: str, *, replaces: bool = False) -> int:
    """Write a history's results into a folder and return their number; replaces: whether to remove an old output first.

    output: a path, or a URI of a file system that Arrow knows. Raises OSError if it can't be written.
    """
    tasks, task = history.tasks()
    system, folder = place_of(output)
    pending = f"{folder}/_pending-{uuid.uuid4().hex}"
    is_new = system.get_file_info(folder).type is fs.FileType.NotFound
    system.create_dir(pending)
    try:
        written = tasks.mapInArrow(_Writing(task, _uri(output, folder, pending)), _FIELDS).collect()
    except BaseException:
        system.delete_dir(folder if is_new else pending)
        raise
    if replaces:
        _clear(system, folder, pending)
    for row in sorted(written, key=lambda row: row.partition):
        system.move(f"{pending}/{row.name}", f"{folder}/part-{row.partition:05}-{row.name}")
    system.delete_dir(pending)
    with system.open_output_stream(f"{folder}/_SUCCESS"):
        pass
    return sum(row.rows for row in written)


def place_of(output: str) -> tuple[fs.FileSystem, str]:
    """The file system of an output, and the path in it. Raises pyarrow.ArrowInvalid if Arrow doesn't know it."""
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(
        output if "://" in output else str(Path(output).absolute())
    )
    return found


def is_known(output: str) -> bool:
    """Whether Arrow knows the file system of an output; it doesn't know Hadoop's own names, such as s3a."""
    try:
        place_of(output)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
        return False
    return True


def _uri(output: str, folder: str, pending: str) -> str:
    """The URI of the pending folder, for tasks."""
    return output.rstrip("/") + pending[len(folder) :] if "://" in output else pending


def _clear(system: fs.FileSystem, folder: str, pending: str) -> None:
    for found in system.get_file_info(fs.FileSelector(folder)):
        if found.path == pending:
            continue
        if found.type is fs.FileType.Directory:
            system.delete_dir(found.path)
        else:
            system.delete_file(found.path)


@dataclass(frozen=True, slots=True)
class _Writing:
    """Writes a task's answers into one file, and returns the file's name."""

    task: ShareTask
    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition, attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        system, folder = place_of(self.folder)
        name, rows = f"{attempt}-{uuid.uuid4().hex[:8]}.parquet", 0
        sink = system.open_output_stream(f"{folder}/{name}")
        with open_writer(Path(name), self.task.schema, sink, ResultFormat.PARQUET) as writer:
            for batch in self.task(batches):
                writer.write(batch)
                rows += batch.num_rows
        yield pa.RecordBatch.from_pydict(
            {"partition": pa.array([partition], pa.int32()), "name": [name], "rows": pa.array([rows], pa.int64())}
        )


def read(spark: SparkSession, path: str, kind: str, options: Mapping[str, str]) -> DataFrame:
    """The rows of a file, folder or table that `path` names; kind: the format, in Spark's words."""
    return spark.read.format(kind).options(**_TYPED.get(kind, {}), **options).load(path)


def write(history: HistoryJoin, path: str, kind: str, mode: str) -> int:
    """Write a history's results in order, one file per share, and return their number.

    Tasks write Parquet themselves if Arrow knows the file system; otherwise rows pass to Spark's writer.
    """
    if kind == "parquet" and is_known(path):
        return write_parquet(history, path, replaces=mode == "overwrite")
    return _write_rows(history.results(), path, kind, mode)


def _write_rows(frame: DataFrame, path: str, kind: str, mode: str) -> int:
    seen = Observation()
    counted = frame.observe(seen, functions.count(functions.lit(1)).alias("rows"))
    counted.write.format(kind).options(**_WRITTEN.get(kind, {})).mode(mode).save(path)
    return int(seen.get["rows"])


def check_output(spark: SparkSession, path: str, mode: str) -> None:
    """Raise ConfigurationError if an output mustn't exist but does, before anything is computed."""
    java: Any = spark.sparkContext._jvm  # Hadoop knows S3 and HDFS as well as files
    place = java.org.apache.hadoop.fs.Path(path)
    if mode == "error" and place.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).exists(place):
        raise exists_already(path)


def check_mode(mode: str) -> None:
    """Raise ConfigurationError if a mode isn't one of MODES."""
    if mode not in MODES:
        raise ConfigurationError(f"--mode {mode}: expected one of {', '.join(MODES)}")


def exists_already(path: str) -> ConfigurationError:
    """The error for an output that exists already."""
    return ConfigurationError(f"{path} exists already: name another place, or let --mode overwrite it, or append to it")
