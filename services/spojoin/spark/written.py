"""Results that tasks write as Parquet themselves: no row of them passes through the JVM.

A task writes into a folder of its own name beside the others, whatever Spark repeats. Files appear in the output when
all tasks have ended: those of the attempts that Spark counts, in the order of the results.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs
from pyspark import TaskContext

from spojoin.embedded.formats import ResultFormat
from spojoin.embedded.writers import open_writer
from spojoin.spark.history import HistoryJoin, ShareTask

_FIELDS = "partition int, name string, rows long"


def write_parquet(history: HistoryJoin, output: str, *, replaces: bool = False) -> int:
    """Write a history's results into a folder and return how many there are; replaces: what is there goes first.

    output: a path, or a URI of a file system that Arrow knows. Raises OSError where it can't be written.
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
    """The file system of an output, and the path there. Raises pyarrow.ArrowInvalid where Arrow doesn't know it."""
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(
        output if "://" in output else str(Path(output).absolute())
    )
    return found


def is_known(output: str) -> bool:
    """Whether Arrow knows the file system of an output; Hadoop's own names, such as s3a, it doesn't."""
    try:
        place_of(output)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
        return False
    return True


def _uri(output: str, folder: str, pending: str) -> str:
    """The pending folder as tasks name it."""
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
    """Writes what a task answers into one file, and says which."""

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
