"""A query's log for the checker: each frame's rows, and the table version that is current after it.

protos/spojoin.proto gives the schema of headers. Rules P1 to P4 decide which records count; P17 defines a frame's
statement about a table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from spojoin.wire._generated import spojoin_pb2 as pb

#: The columns of a message that are read.
LOG_MESSAGE = ("offset", "value")
_PREFIX = struct.Struct("<4sIIIII")
_VERSION, _READ = struct.Struct("<qqQ"), struct.Struct("<qq")
_HEAD_FIELDS = ("epoch", "frame_id", "first_seq", "count", "previous_link", "link")
_COUNTED = ("frame_id", "first_seq", "count", "answers", "answered", "right_first")

LOG_SCHEMA = pa.schema(
    [("offset", pa.int64()), ("is_frame", pa.bool_())]
    + [(name, pa.int64()) for name in (*_HEAD_FIELDS, "answers", "answered", "right_first")]
    + [("checkpoint", pa.binary())]
)


class NamedVersion(NamedTuple):
    """A table's version as frames name it: the right tuples [first, end) with a value in each index condition.

    content: 64 bits that identify its rows; read: by partition of the table's topic, the offset it was read to
    """

    first: int
    end: int
    content: int
    read: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, checkpoint: bytes) -> NamedVersion | None:
        """The version in a frame; None if there is none yet."""
        if not checkpoint:
            return None
        read = tuple((partition, offset) for partition, offset in _READ.iter_unpack(checkpoint[_VERSION.size :]))
        first, end, content = _VERSION.unpack_from(checkpoint)
        return cls(first, end, content, read)


@dataclass(frozen=True, slots=True)
class FrameHead:
    """The relevant part of a frame: its rows have seqs from `first_seq` on and are the stream's or one version's.

    answers: the number of rows that it answers, either all of its rows or none
    answered: rows of the stream that frames before it have answered
    right_first: the number of right tuples with a value in each index condition in earlier frames
    named: the version that is current from its end on
    """

    frame_id: int
    first_seq: int
    count: int
    answers: int
    answered: int
    right_first: int
    named: NamedVersion | None = None

    @property
    def end(self) -> int:
        """The seq after its last row."""
        return self.first_seq + self.count

    @property
    def holds_table_rows(self) -> bool:
        """Whether its rows are a version's."""
        return self.count > 0 and self.answers == 0


def read_log(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Messages (LOG_MESSAGE) as rows of LOG_SCHEMA."""
    for batch in batches:
        columns = (batch[name].to_pylist() for name in LOG_MESSAGE)
        yield pa.RecordBatch.from_pylist([_row(*each) for each in zip(*columns, strict=True)], LOG_SCHEMA)


def _row(offset: int, value: bytes) -> dict[str, Any]:
    header_size = _PREFIX.unpack_from(value)[3]
    envelope = pb.Envelope.FromString(value[_PREFIX.size : _PREFIX.size + header_size])
    if envelope.WhichOneof("record") == "barrier":
        barrier = envelope.barrier
        first_seq = barrier.first_seq or sum(barrier.first_indexes)
        return {"offset": offset, "is_frame": False, "epoch": barrier.epoch, "first_seq": first_seq}
    frame = envelope.frame
    closing = len(envelope.columns) - frame.closing_columns
    return {
        "offset": offset,
        "is_frame": True,
        **{name: getattr(frame, name) for name in _HEAD_FIELDS},
        "answers": envelope.columns[closing].count if frame.closing_columns else 0,
        "answered": frame.closing.first,
        "right_first": frame.slices[1].first_index,
        "checkpoint": frame.checkpoint,
    }


def accepted(records: Iterable[Mapping[str, Any]]) -> list[FrameHead]:
    """The accepted frames among a log's records (LOG_SCHEMA), in the order of their offsets."""
    found: list[FrameHead] = []
    epoch, following = -1, (0, 0, 0)
    for record in records:
        if not record["is_frame"]:
            if record["epoch"] > epoch:
                following = following if found else (0, record["first_seq"], 0)
                epoch = record["epoch"]
            continue
        place = record["frame_id"], record["first_seq"], record["previous_link"]
        if epoch < 0:  # a log is trimmed to a frame that counts
            epoch, following = record["epoch"], place
        if record["epoch"] == epoch and place == following:
            counted = {name: record[name] for name in _COUNTED}
            found.append(FrameHead(**counted, named=NamedVersion.of(record["checkpoint"])))
            following = record["frame_id"] + 1, found[-1].end, record["link"]
    return found
