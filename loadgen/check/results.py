"""The results topic as the checker reads it: plain Arrow IPC streams and headers, without any code of the product.

A record holds a frame's positions [begin, end) and is accepted only if it continues exactly where the previous one
ended. It drops other records: services may send records again after a restart. But a row that occurs twice in accepted
records is an error.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap, BitMap64
from pyspark.sql import DataFrame

from spojoin.arrays import I64
from spojoin.model import Output

FRAME, BEGIN, END, LAST = "spojoin-frame", "spojoin-begin", "spojoin-end", "spojoin-last"
GENERATION = "spojoin-generation"
#: How many partitions the results have, if several.
SINKS = "spojoin-sinks"
#: Columns of names and keys, whose type varies.
AS_TEXT = ("stream", "key", "left_key", "right_key")
#: SERIAL_COOKIE_NO_RUNCONTAINER and SERIAL_COOKIE of the Roaring format specification.
_COOKIES = (12346, 12347)


class ResultRecord(NamedTuple):
    """A record of the results topic."""

    headers: Mapping[str, bytes]
    value: bytes


class Accepted(NamedTuple):
    """The output's rows in order, the number of records sent again, and the faults of the chain of records."""

    rows: pa.Table
    resent: int
    gap: str | None


class RecordChain:
    """Follows the chain of records from frame 0 on; `tuples` are answered so far, `resent` records were dropped.

    A query that replaces another begins with its own frame 0, after a complete frame of the previous query;
    `generation` counts them. Positions of rows that it only reads again also count as tuples.

    keeps: whether the records' values are kept, for `accepted`
    """

    def __init__(self, *, keeps: bool = True) -> None:
        self.tuples = 0
        self.gap: str | None = None
        self.resent = 0
        self.generation = 1
        self._next = (0, 0)
        self._keeps = keeps
        self._values: list[bytes] = []

    def take(self, message: ResultRecord) -> bool:
        """Take a record; returns whether it continues the chain, and thus counts."""
        frame, begin, end = (int(message.headers[name]) for name in (FRAME, BEGIN, END))
        generation = int(message.headers.get(GENERATION, b"1"))
        if generation < self.generation:
            self.resent += 1
            return False
        if generation > self.generation and (frame, begin, self._next[1]) == (0, 0, 0):
            self.generation, self._next = generation, (0, 0)
        if generation == self.generation and (frame, begin) == self._next:
            if self._keeps:
                self._values.append(message.value)
            self._next = (frame + 1, 0) if message.headers[LAST] == b"1" else (frame, end)
            self.tuples += end - begin
            return True
        if generation == self.generation and (frame, begin) < self._next:
            self.resent += 1
        elif self.gap is None:
            at, position = self._next
            self.gap = (
                f"results of frame {at} from position {position} on are missing: the next record is of {(frame, begin)}"
            )
        return False

    @property
    def next_place(self) -> tuple[int, int, int]:
        """Generation, frame and position of the record that continues the chain."""
        return self.generation, *self._next

    def accepted(self) -> Accepted:
        """All rows so far."""
        batches = [batch for value in self._values for batch in batches_of(value)]
        return Accepted(pa.Table.from_batches(batches) if batches else pa.table({}), self.resent, self.gap)


class EarlyRecords:
    """Gives a chain the records of several partitions as they come; one that comes early waits for those before it.

    A partition may be ahead of the others by any number of frames of one generation. The records of a later generation
    wait for `settle`.

    take: has the chain take a record; called with each in turn
    """

    def __init__(self, chain: RecordChain, take: Callable[[ResultRecord], object]) -> None:
        self._chain = chain
        self._give = take
        self._waiting: dict[tuple[int, int, int], ResultRecord] = {}

    def take(self, message: ResultRecord) -> None:
        """Take a partition's next record."""
        place = place_in_log(message)
        if SINKS not in message.headers or place < self._chain.next_place:
            self._give(message)
            return
        self._waiting.setdefault(place, message)
        while following := self._waiting.pop(self._chain.next_place, None):
            self._give(following)

    def settle(self) -> None:
        """Give the chain what still waits: no further records come."""
        for message in in_log_order(self._waiting.values()):
            self._give(message)
        self._waiting.clear()


def place_in_log(message: ResultRecord) -> tuple[int, int, int]:
    """Generation, frame and position of a record."""
    generation, frame, begin = (int(message.headers.get(name, b"1")) for name in (GENERATION, FRAME, BEGIN))
    return generation, frame, begin


def in_log_order(messages: Iterable[ResultRecord]) -> list[ResultRecord]:
    """The records by frame if several partitions hold them; those of one partition keep their order."""
    found = list(messages)
    if not any(SINKS in message.headers for message in found):
        return found
    return sorted(found, key=place_in_log)


def accept(messages: Iterable[ResultRecord]) -> Accepted:
    """Follow the chain of records from frame 0 on."""
    chain = RecordChain()
    for message in in_log_order(messages):
        chain.take(message)
    return chain.accepted()


def batches_of(value: bytes) -> Iterator[pa.RecordBatch]:
    """A message's rows, with names and keys as text, since their Arrow type may differ between messages."""
    with pa.ipc.open_stream(io.BytesIO(value)) as stream:
        for batch in stream:
            columns = [
                column.cast(pa.string()) if name in AS_TEXT else column
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


class Pairs(NamedTuple):
    """Pairs: the seqs of probe and partner, int64 (n,) each, and whether the probe is the right side, uint8 (n,)."""

    probe: I64
    partner: I64
    direction: NDArray[np.uint8]

    def at(self, rows: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Pairs:
        """The pairs at these places, or with a true mask."""
        return Pairs(self.probe[rows], self.partner[rows], self.direction[rows])

    @classmethod
    def joined(cls, parts: Sequence[Pairs]) -> Pairs:
        """All parts, one after the other."""
        return cls(
            np.concatenate([part.probe for part in parts]),
            np.concatenate([part.partner for part in parts]),
            np.concatenate([part.direction for part in parts]),
        )


def pairs_of(rows: pa.Table, output: Output) -> Pairs:
    """The pairs of a `pairs` or `bitmap` output."""
    if rows.num_rows == 0:
        return Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8))
    if output is Output.PAIRS:
        probe, left, right = (rows[c].to_numpy().astype(np.int64) for c in ("probe_seq", "left_seq", "right_seq"))
        direction = (right == probe).astype(np.uint8)
        return Pairs(probe, np.where(direction == 0, right, left), direction)
    return _from_bitmaps(rows)


def _from_bitmaps(rows: pa.Table) -> Pairs:
    parts = []
    for number, name in enumerate(("as_left", "as_right")):
        if name not in rows.column_names:
            continue
        for seq, data in zip(rows["seq"].to_pylist(), rows[name].to_pylist(), strict=True):
            found = bitmap_seqs(data)
            parts.append(Pairs(np.full(len(found), seq, np.int64), found, np.full(len(found), number, np.uint8)))
    return Pairs.joined(parts)


def bitmap_seqs(data: bytes | None) -> I64:
    """The seqs of a serialised Roaring bitmap, in the 32-bit format, known by its cookie, or the 64-bit one."""
    if not data:
        return np.zeros(0, np.int64)
    is_32_bit = int.from_bytes(data[:2], "little") in _COOKIES
    found = (BitMap if is_32_bit else BitMap64).deserialize(data)
    return np.fromiter(found, np.int64, len(found))


#: The columns of a result message that are read.
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
    """Writes the values of messages into files, one for each of Spark's partitions, and yields their places."""

    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Each message's place, its headers' numbers, and the file and offset of its value."""
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
    """A result's headers. Raises ValueError if they describe no frame."""
    said = {str(header["key"]): header["value"] for header in headers or ()}
    if END not in said:
        raise ValueError("the results are JSON messages: the checker reads those of results_format frames")
    return said


def sorted_by_log(records: pa.Table, frame: str, begin: str) -> pa.Table:
    """Records in their order in their one partition, or of several, by the columns of frame and position."""
    several = len(records["partition"].unique()) > 1
    columns = (frame, begin, "offset") if several else ("offset",)
    return records.sort_by([(name, "ascending") for name in columns])


def result_batches(messages: DataFrame, folder: Path) -> Iterator[pa.RecordBatch]:
    """The rows of the results in `messages`, which have the columns RESULT_MESSAGE, in order, each once."""
    chain = RecordChain(keeps=False)
    kept = messages.mapInArrow(KeptResults(str(folder)), _KEPT).toArrow()
    for record in sorted_by_log(kept, "frame", "begin").to_pylist():
        headers = {name: b"%d" % record[name.removeprefix("spojoin-")] for name in NUMBERS}
        if chain.take(ResultRecord(headers, b"")):
            with Path(record["path"]).open("rb") as file:
                file.seek(record["at"])
                yield from batches_of(file.read(record["size"]))
