"""The results topic as the checker reads it: plain Arrow IPC streams and headers, with nothing of the product's code.

A record holds a frame's positions [begin, end) and is accepted iff it continues exactly where the one before ended.
Others were sent again after a restart: legal on the wire, and dropped. A row that comes twice in accepted records is
an error all the same.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap, BitMap64

from spojoin.model import Output

I64 = NDArray[np.int64]

FRAME, BEGIN, END, LAST = "spojoin-frame", "spojoin-begin", "spojoin-end", "spojoin-last"
GENERATION = "spojoin-generation"
#: Columns of names and keys, which have this type or that.
AS_TEXT = ("stream", "key", "left_key", "right_key")
#: SERIAL_COOKIE_NO_RUNCONTAINER and SERIAL_COOKIE of the Roaring format specification.
_COOKIES = (12346, 12347)


class ResultRecord(NamedTuple):
    """A record of the results topic."""

    headers: Mapping[str, bytes]
    value: bytes


class Accepted(NamedTuple):
    """The output's rows in order, how many records were sent again, and what is wrong with the chain of records."""

    rows: pa.Table
    resent: int
    gap: str | None


class RecordChain:
    """Follows the chain of records from frame 0 on; `tuples` are answered so far, `resent` records were dropped.

    A query that replaces another begins with a frame 0 of its own, behind a whole frame of the one before; `generation`
    counts them. Positions of rows that it only reads again count as tuples, too.

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
        """Whether a record continues the chain, which is all that makes it count."""
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

    def accepted(self) -> Accepted:
        """All rows so far."""
        batches = [batch for value in self._values for batch in batches_of(value)]
        return Accepted(pa.Table.from_batches(batches) if batches else pa.table({}), self.resent, self.gap)


def accept(messages: Iterable[ResultRecord]) -> Accepted:
    """Follow the chain of records from frame 0 on."""
    chain = RecordChain()
    for message in messages:
        chain.take(message)
    return chain.accepted()


def batches_of(value: bytes) -> Iterator[pa.RecordBatch]:
    """A message's rows; names and keys as text, since their Arrow type may differ from message to message."""
    with pa.ipc.open_stream(io.BytesIO(value)) as stream:
        for batch in stream:
            columns = [
                column.cast(pa.string()) if name in AS_TEXT else column
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


class Pairs(NamedTuple):
    """Pairs of seqs, int64 (n,) each: the probe, the partner, and uint8 whether the probe is the right side."""

    probe: I64
    partner: I64
    direction: NDArray[np.uint8]

    def at(self, rows: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Pairs:
        """Those at these places, or where a mask says so."""
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
