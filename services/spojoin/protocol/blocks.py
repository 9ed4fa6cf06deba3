"""Rows as blocks, in which an intake sends them to the router, and back (rule P23)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spojoin.arrays import I64
from spojoin.kernels.segments import one_each, one_if_equal, places_within, run_starts
from spojoin.wire.records import NEVER, Block, Came, DeadLetter, Place, Rows

#: A block holds at most this many rows, and its payload about this many bytes: far fewer than a message may have.
BLOCK_ROWS_MAX = 1 << 16
BLOCK_BYTES_MAX = 16 << 20

#: (stream, partition, first offset, offset after the last) -> the function that returns a row of these as it came
Originals = Callable[[int, int, int, int], Callable[[int, int], Came]]

_REFUSED = pa.schema(
    {
        "offset": pa.int64(),
        "row": pa.int64(),
        "reason": pa.string(),
        "detail": pa.string(),
        "value": pa.binary(),
        "key": pa.binary(),
        "headers": pa.list_(pa.struct({"name": pa.string(), "value": pa.binary()})),
        "timestamp_ms": pa.int64(),
    }
)


def blocks_of(stream: int, partition: int, first: Place, rows: Rows) -> Iterator[Block]:  # P23.1
    """The blocks of rows that were read from the place `first` on; one without rows if there are none."""
    count = len(rows)
    size = _rows_a_block(rows)
    for begin in range(0, max(count, 1), size):
        end = min(begin + size, count)
        behind = rows.end if end == count else (int(rows.offsets[end]), int(rows.rows[end]))
        yield _block(stream, partition, first, behind, rows, slice(begin, end))
        first = behind


def _rows_a_block(rows: Rows) -> int:
    payload = 0 if rows.payload is None else rows.payload.nbytes
    return max(1, min(BLOCK_ROWS_MAX, BLOCK_BYTES_MAX * len(rows) // max(payload, 1)))


def _block(stream: int, partition: int, first: Place, behind: Place, rows: Rows, part: slice) -> Block:
    """The rows of a part, with the dead letters between two places; the last part has what is said behind the rows."""
    is_last, offsets = behind == rows.end, one_if_equal(rows.offsets[part])
    return Block(
        stream,
        partition,
        *first,
        *behind,
        offsets=offsets,
        rows=_first_if_counted(rows.rows[part], offsets),
        codes=tuple(codes[part] for codes in rows.codes),
        times_us=None if rows.times_us is None else rows.times_us[part],
        keys=rows.keys[part],
        produced_ms=one_if_equal(rows.produced_ms[part]),
        heartbeat_us=NEVER if rows.heartbeat_us is None or not is_last else rows.heartbeat_us,
        latest_ms=NEVER if rows.latest_ms is None or not is_last else rows.latest_ms,
        payload=None if rows.payload is None else rows.payload[part],
        members=None if rows.members is None else rows.members[part],
        joins=None if rows.joins is None else rows.joins[part],
        refused=_refused([letter for letter in rows.dead if first <= (letter.offset, letter.row) < behind]),
    )


def _first_if_counted(rows: I64, offsets: I64) -> I64:
    return rows[:1] if len(rows) and (rows == _counted(offsets, int(rows[0]), len(rows))).all() else rows


def _counted(offsets: I64, first: int, count: int) -> I64:
    """The rows of a block, int64 (count,): from `first` on in its first message, and from 0 in the others."""
    if len(offsets) == 1:
        return np.arange(first, first + count)
    sizes = np.diff(run_starts(offsets), append=len(offsets))
    counted = places_within(sizes)
    counted[: sizes[0]] += first
    return counted


def _refused(letters: list[DeadLetter]) -> pa.RecordBatch | None:
    if not letters:
        return None
    columns = {name: [getattr(letter, name) for letter in letters] for name in _REFUSED.names if name != "headers"}
    columns["headers"] = [[{"name": name, "value": value} for name, value in letter.headers] for letter in letters]
    return pa.RecordBatch.from_pydict(columns, _REFUSED)


def rows_of(block: Block, originals: Originals) -> Rows:
    """The rows of a block."""
    count = len(block)
    return Rows(
        offsets=one_each(block.offsets, count),
        rows=_counted(block.offsets, int(block.rows[0]), count) if len(block.rows) < count else block.rows,
        next_offset=block.next_offset,
        codes=block.codes,
        times_us=block.times_us,
        keys=block.keys,
        produced_ms=one_each(block.produced_ms, count),
        dead=list(_letters(block)),
        heartbeat_us=None if block.heartbeat_us == NEVER else block.heartbeat_us,
        payload=block.payload,
        members=block.members,
        joins=block.joins,
        latest_ms=None if block.latest_ms == NEVER else block.latest_ms,
        as_it_came=_Later(block, originals),
        next_row=block.next_row,
    )


def _letters(block: Block) -> Iterator[DeadLetter]:
    if block.refused is None:
        return
    for letter in block.refused.to_pylist():
        headers = tuple((header["name"], header["value"]) for header in letter.pop("headers"))
        yield DeadLetter(block.stream, block.partition, headers=headers, **letter)


@dataclass(slots=True)
class _Later:
    """Returns rows of a block as they came; the messages are read again when the first one is asked for."""

    block: Block
    originals: Originals
    found: Callable[[int, int], Came] | None = None

    def __call__(self, offset: int, row: int) -> Came:
        if self.found is None:
            block = self.block
            behind = block.next_offset + (block.next_row > 0)
            self.found = self.originals(block.stream, block.partition, block.first_offset, behind)
        return self.found(offset, row)
