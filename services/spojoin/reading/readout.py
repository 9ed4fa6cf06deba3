"""The results of reading messages of any format: rows and faults, the columns that are read, headers as a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.columns.extract import Extracted
from spojoin.columns.stream_columns import arrow_schema
from spojoin.model import HEADERS, Stream

Ids = NDArray[np.int64]


class BadLine(NamedTuple):
    """A line or row that can't take part, by its number among the given ones."""

    id: int
    reason: str
    detail: str


@dataclass(slots=True)
class Readout:
    """The taken rows, as pairs of their numbers (n,) and what was extracted from them (n rows), and the faults.

    Together they contain the number of each given row exactly once, in any order.
    """

    taken: list[tuple[Ids, Extracted]] = field(default_factory=list)
    faults: list[BadLine] = field(default_factory=list)

    @classmethod
    def all_at_fault(cls, count: int, reason: str, detail: str) -> Readout:
        """The readout of `count` messages without any row, for one reason."""
        return cls(faults=[BadLine(at, reason, detail) for at in range(count)])

    def keep_rows(self, ids: Ids, extracted: Extracted) -> None:
        """Keep what was extracted from the rows `ids`."""
        if len(extracted.kept):
            self.taken.append((ids[extracted.kept], extracted))

    def keep_rows_and_faults(self, ids: Ids, extracted: Extracted) -> None:
        """Keep what was extracted from the rows `ids`, and why some were refused."""
        self.keep_rows(ids, extracted)
        self.faults += [BadLine(int(ids[r.row]), r.reason, r.detail) for r in extracted.refused]


class BadMessage(Exception):  # a signal within this room
    """A message without any usable row; it becomes a dead letter with this reason."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Wanted(NamedTuple):
    """The columns that are read from a row, and the field that holds the row, unless the message is the row."""

    names: Sequence[str]
    envelope: str | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows of the messages `ids` (n,), in order, and why the other given messages have none."""

    ids: Ids
    rows: pa.RecordBatch
    faults: list[BadLine]

    @classmethod
    def from_lists(cls, ids: Sequence[int], rows: pa.RecordBatch, faults: list[BadLine]) -> Decoded:
        """The rows of messages whose numbers are a list."""
        return cls(np.array(ids, np.int64), rows, faults)


class Decoder(Protocol):
    """Reads messages of one schema; whether a message is valid never depends on its neighbours."""

    def read(self, messages: Sequence[bytes], wanted: Wanted) -> Decoded:
        """Each message, without the prefix of its schema, as a row or a fault.

        Raises BadMessage if the schema has no such rows, so that no message can have one.
        """
        ...


def columns_needed(stream: Stream, needs_time: bool) -> list[str]:
    """The columns of the key expressions, then the event time if it is needed, then the users' key; each once."""
    return [name for name in arrow_schema(stream, needs_time).names if not _is_headers(stream, name)]


def needs_headers(stream: Stream, needs_time: bool) -> bool:
    """Whether the messages' headers are read as well."""
    return any(_is_headers(stream, name) for name in arrow_schema(stream, needs_time).names)


def _is_headers(stream: Stream, name: str) -> bool:
    return name == HEADERS and name not in stream.schema


def columns_of_a_line(stream: Stream) -> list[str]:
    """The columns of a CSV line: the declared ones, then time and key if they aren't among them."""
    return list(dict.fromkeys([*stream.schema, *filter(None, (stream.time_column, stream.key))]))


#: The reason of a message that deletes a row: windows hold what has arrived, so no row is taken back.
DELETE = "delete"

#: The field with the message itself if JSON includes its schema, as Kafka Connect writes it.
PAYLOAD = "payload"


def no_row(field: str, operation: object) -> tuple[str, str]:
    """Why a message without a value in its envelope's field gives no row: reason and detail."""
    if operation in (None, DELETED):
        return DELETE, f"envelope {field}: no row, the message tells of one that was deleted"
    return "null", f"envelope {field}: no row in a message with {OPERATION} {operation!r}"


def not_a_row(field: str, found: str) -> tuple[str, str]:
    """Why a message can't be read whose envelope's field holds no row: reason and detail."""
    return "type", f"envelope {field}: expected a row with fields, found {found}"


def no_envelope(field: str, found: str) -> tuple[str, str]:
    """Why a message without the envelope's field gives no row: reason and detail."""
    return "missing-field", f"envelope {field}: missing, the message has {found}"


Headers = Sequence[tuple[str, bytes | None]]

#: Adds the column to rows (n,), given the numbers of their messages, or lines, (n,).
AddHeaders = Callable[[pa.RecordBatch, NDArray[np.int64]], pa.RecordBatch]

_TYPE = pa.map_(pa.string(), pa.string())


def header_column(messages: Sequence[Headers]) -> pa.MapArray:
    """Each message's headers; of several with one name the last, which is Kafka's rule.

    Values are read as UTF-8, with U+FFFD in place of invalid bytes; a header without a value is null.
    """
    return pa.array([list(_texts(headers).items()) for headers in messages], _TYPE)


def with_headers(rows: pa.RecordBatch, column: pa.MapArray, owners: NDArray[np.int64]) -> pa.RecordBatch:
    """Rows (n,) with their messages' headers; owners: (n,), the number of each row's message in `column`."""
    return rows.append_column(HEADERS, column.take(pa.array(owners)))


def _texts(headers: Headers) -> dict[str, str | None]:
    return {name: None if value is None else value.decode(errors="replace") for name, value in headers}


#: Debezium's field with the operation, and its value for a deleted row.
OPERATION, DELETED = "op", "d"
