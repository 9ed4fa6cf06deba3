"""Rows as they came, for dead letters: a message, a line of one that has several, a row of Arrow as a JSON line."""

from __future__ import annotations

import base64
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import attrgetter

import orjson
import pyarrow as pa

from spojoin.roles.router.arrow_rows import FILE_MAGIC
from spojoin.roles.router.csv_lines import CsvLines
from spojoin.roles.router.formats import Format, Kind, Message, kind_of
from spojoin.roles.router.json_lines import JsonLines

_ARROW = (Format.ARROW, Format.ARROW_FILE)
_LINES: dict[Kind, Callable[[bytes], Sequence[bytes]]] = {Format.JSON: JsonLines.split, Format.CSV: CsvLines.split}


class AsTheyCame:
    """The rows of messages, in the order of their offsets; default: the format of those that don't name theirs."""

    def __init__(self, messages: Sequence[Message], default: Format) -> None:
        self._messages = messages
        self._default = default
        self._taken_apart: tuple[int, Sequence[bytes] | pa.Table] | None = None

    def __call__(self, offset: int, row: int) -> tuple[bytes, bytes | None]:
        """What came of a row by its place, and its message's key."""
        message = self._messages[bisect_left(self._messages, offset, key=attrgetter("offset"))]
        value, kind = message.value or b"", kind_of(message, self._default)
        if kind in _ARROW or kind in _LINES:
            if self._taken_apart is None or self._taken_apart[0] != offset:
                self._taken_apart = offset, _table(value) if kind in _ARROW else _LINES[kind](value)
            rows = self._taken_apart[1]
            if isinstance(rows, pa.Table):
                value = _json_line(rows.slice(row, 1))
            elif len(rows) > 1:
                value = rows[row]
        return value, getattr(message, "key", None)


def _table(value: bytes) -> pa.Table:
    is_file = value.startswith(FILE_MAGIC)
    with (pa.ipc.open_file if is_file else pa.ipc.open_stream)(pa.py_buffer(value)) as reader:
        return reader.read_all()


def _json_line(row: pa.Table) -> bytes:
    return orjson.dumps(
        {name: _plain(column[0]) for name, column in zip(row.column_names, row.columns, strict=True)},
        default=lambda value: base64.b64encode(value).decode() if isinstance(value, bytes) else str(value),
    )


def _plain(scalar: pa.Scalar) -> object:
    """A value of Python's; text where it has none, as for nanoseconds."""
    try:
        value = scalar.as_py()
    except ValueError:
        return str(scalar.cast(pa.string()))
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
