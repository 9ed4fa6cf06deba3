"""The values of a results topic in files of this machine, so that all of them can be read in order without memory."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from loadgen.check.results import BEGIN, END, FRAME, LAST, RecordChain, ResultRecord, batches_of

#: Columns of a result message that are read.
RESULT_MESSAGE = ("partition", "offset", "value", "headers")
NUMBERS = (FRAME, BEGIN, END, LAST)
_KEPT = "partition int, offset long, frame long, begin long, end long, last long, path string, at long, size long"
_SCHEMA = pa.schema(
    [("partition", pa.int32())]
    + [(name, pa.int64()) for name in ("offset", "frame", "begin", "end", "last")]
    + [("path", pa.string()), ("at", pa.int64()), ("size", pa.int64())]
)


@dataclass(frozen=True, slots=True)
class KeptResults:
    """Writes the values of messages into files of a folder, one for each of Spark's partitions, and says where."""

    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Of each message its place, its headers' numbers, and where in which file its value is."""
        path = Path(self.folder) / f"results-{uuid.uuid4().hex}"
        with path.open("wb") as file:
            for batch in batches:
                yield pa.RecordBatch.from_pylist(list(_kept(batch, path, file)), _SCHEMA)


def _kept(batch: pa.RecordBatch, path: Path, file: io.BufferedWriter) -> Iterator[dict[str, object]]:
    for partition, offset, value, headers in zip(*(batch[name] for name in RESULT_MESSAGE), strict=True):
        said = said_by(headers.as_py())
        at, data = file.tell(), value.as_buffer()
        file.write(data)
        numbers = {name.removeprefix("spojoin-"): int(said[name]) for name in NUMBERS}
        place = {"partition": partition.as_py(), "offset": offset.as_py()}
        yield place | numbers | {"path": str(path), "at": at, "size": len(data)}


def said_by(headers: list[dict[str, bytes]] | None) -> dict[str, bytes]:
    """A result's headers. Raises ValueError where it is no frame."""
    said = {str(header["key"]): header["value"] for header in headers or ()}
    if END not in said:
        raise ValueError("the results are JSON messages: the checker reads those of results_format frames")
    return said


def result_batches(messages: DataFrame, folder: Path) -> Iterator[pa.RecordBatch]:
    """The rows of the results in `messages`, which have the columns RESULT_MESSAGE, in order, each once."""
    chain = RecordChain(keeps=False)
    kept = messages.mapInArrow(KeptResults(str(folder)), _KEPT).toArrow()
    for record in kept.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist():
        headers = {name: b"%d" % record[name.removeprefix("spojoin-")] for name in NUMBERS}
        if chain.take(ResultRecord(headers, b"")):
            with Path(record["path"]).open("rb") as file:
                file.seek(record["at"])
                yield from batches_of(file.read(record["size"]))
