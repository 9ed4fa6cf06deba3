"""A query's log as the checker reads it: whose rows a frame holds, and which version of the table holds from it on.

Of each record the header is read, by its schema (protos/spojoin.proto); which records count is decided anew here, from
rules P1 to P4, and what a frame says of a table from P17.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from spojoin.wire._generated import spojoin_pb2 as pb

#: Columns of a message that are read.
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

    content: 64 bits that tell its rows from others; read: by partition of the table's topic, the offset it was read to
    """

    first: int
    end: int
    content: int
    read: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, checkpoint: bytes) -> NamedVersion | None:
        """None where there is none yet."""
        if not checkpoint:
            return None
        read = tuple((partition, offset) for partition, offset in _READ.iter_unpack(checkpoint[_VERSION.size :]))
        first, end, content = _VERSION.unpack_from(checkpoint)
        return cls(first, end, content, read)


@dataclass(frozen=True, slots=True)
class FrameHead:
    """What counts of a frame: its rows have the seqs from `first_seq` on, and are the stream's or of one version.

    answers: how many rows it answers, all of its rows or none
    answered: rows of the stream that frames before it have answered
    right_first: right tuples with a value in each index condition that frames before it hold
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
        """The seq behind its rows."""
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
    """The frames that count of a log's records (LOG_SCHEMA), in the order of their offsets."""
    found: list[FrameHead] = []
    epoch, following = -1, (0, 0, 0)
    for record in records:
        if not record["is_frame"]:
            if record["epoch"] > epoch:
                following = following if epoch >= 0 else (0, record["first_seq"], 0)
                epoch = record["epoch"]
            continue
        place = record["frame_id"], record["first_seq"], record["previous_link"]
        if epoch < 0:  # a log is trimmed to a frame that counts
            epoch, following = record["epoch"], place
        if record["epoch"] == epoch and place == following:
            found.append(_head(record))
            following = record["frame_id"] + 1, found[-1].end, record["link"]
    return found


def _head(record: Mapping[str, Any]) -> FrameHead:
    return FrameHead(**{name: record[name] for name in _COUNTED}, named=NamedVersion.of(record["checkpoint"]))
