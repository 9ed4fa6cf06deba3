"""Rows as they came, for dead letters: a message, a line of one that has several, a row of Arrow as a JSON line."""

from __future__ import annotations

import base64
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import orjson
import pyarrow as pa

from spojoin.roles.router.arrow_rows import FILE_MAGIC
from spojoin.roles.router.csv_lines import CsvLines
from spojoin.roles.router.formats import CONTENT_TYPE, Format, Kind, Message, kind_of
from spojoin.roles.router.json_lines import JsonLines
from spojoin.wire.records import I64, Came
from spojoin.wire.registered import PREFIX_BYTES

_ARROW = (Format.ARROW, Format.ARROW_FILE)


def _registered_lines(value: bytes) -> list[bytes]:
    """Each with the id of the schema."""
    return [value[:PREFIX_BYTES] + line for line in JsonLines.split(value[PREFIX_BYTES:])]


_LINES: dict[Kind, Callable[[bytes], Sequence[bytes]]] = {
    Format.JSON: JsonLines.split,
    Format.CSV: CsvLines.split,
    Format.REGISTERED: _registered_lines,  # of JSON alone: Avro and Protobuf have a row a message
}


def whole_message(message: Message) -> Came:
    """A message as it came."""
    headers = tuple(message.headers)
    return Came(message.value or b"", getattr(message, "key", None), headers, message.timestamp_ms)


class AsTheyCame:
    """The rows of messages, in the order of their offsets.

    row_counts: int64 (n,), how many each has, as far as it was read
    default: the format of those that don't name theirs
    """

    def __init__(self, messages: Sequence[Message], row_counts: I64, default: Format) -> None:
        self._messages = messages
        self._row_counts = row_counts
        self._default = default
        self._taken_apart: tuple[int, Sequence[bytes] | pa.Table] | None = None

    def __call__(self, offset: int, row: int) -> Came:
        """What came of a row by its place; the header `content-type` names its form where that isn't the message's."""
        at = bisect_left(self._messages, offset, key=attrgetter("offset"))
        message, rows_in_it = self._messages[at], self._row_counts[at]
        came, kind = whole_message(message), kind_of(message, self._default)
        if kind in _ARROW and rows_in_it:
            return _in_form(came, _json_line(self._rows(offset, kind, came.value).slice(row, 1)), Format.JSON)
        if kind in _LINES and rows_in_it > 1:
            line = self._rows(offset, kind, came.value)[row]
            return came._replace(value=line) if kind is Format.REGISTERED else _in_form(came, line, kind)
        return came

    def _rows(self, offset: int, kind: Kind, value: bytes) -> Any:  # noqa: ANN401  (lines, or a table of Arrow's)
        if self._taken_apart is None or self._taken_apart[0] != offset:
            self._taken_apart = offset, _table(value) if kind in _ARROW else _LINES[kind](value)
        return self._taken_apart[1]


def _in_form(came: Came, value: bytes, form: Kind) -> Came:
    others = [each for each in came.headers if each[0].lower() != CONTENT_TYPE]
    return came._replace(value=value, headers=(*others, (CONTENT_TYPE, str(form).encode())))


def _table(value: bytes) -> pa.Table:
    """The rows, without columns whose bytes aren't what their type says: nobody may have looked at them before."""
    is_file = value.startswith(FILE_MAGIC)
    with (pa.ipc.open_file if is_file else pa.ipc.open_stream)(pa.py_buffer(value)) as reader:
        table = reader.read_all()
    return table.select([at for at, column in enumerate(table.columns) if _is_sound(column)])


def _is_sound(column: pa.ChunkedArray) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _json_line(row: pa.Table) -> bytes:
    return orjson.dumps(
        {name: _plain(column[0]) for name, column in zip(row.column_names, row.columns, strict=True)},
        default=lambda value: base64.b64encode(value).decode() if isinstance(value, bytes) else str(value),
        option=orjson.OPT_NON_STR_KEYS,
    )


def _plain(scalar: pa.Scalar) -> object:
    """A value of Python's; text where it has none, as for nanoseconds."""
    if isinstance(scalar, pa.StructScalar) and scalar.is_valid:
        return {field.name: _plain(scalar[at]) for at, field in enumerate(scalar.type)}
    if isinstance(scalar, pa.ListScalar) and scalar.is_valid:
        return [_plain(each) for each in scalar.values]
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError):
        return str(scalar.cast(pa.string()))
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
