"""Refused rows: each with its position, reason and values, counted by reason, and written to a file."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson
import pyarrow as pa

from spojoin.embedded.formats import ResultFormat, format_of
from spojoin.embedded.outputs import TableWriter, WholeOrNothing
from spojoin.embedded.writers import open_writer, packed

#: `row` holds the row's values as a JSON object.
_TEXTS = ("stream", "reason", "detail", "row")
_SCHEMA = pa.schema([pa.field("position", pa.int64())] + [pa.field(name, pa.string()) for name in _TEXTS])

LATE = "late"

#: The description of a late row: its time, and the latest time before it.
_LATE_BY = re.compile(r"event time (\S+) came after (\S+) in its input")
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Reject:
    """A refused row. position: in its input, from 0; row: its values by column, or its text if it had no columns."""

    position: int
    stream: str
    reason: str
    detail: str
    row: Mapping[str, object] | str | None

    @property
    def offset(self) -> int:
        """The position, under the name that Kafka messages use."""
        return self.position


class RejectsWriter(WholeOrNothing):
    """Appends rejects to a file: as JSON lines with rows as objects, or in another format with rows as JSON text.

    sink: takes the bytes in place of a file at `path`, and is closed with the writer
    """

    def __init__(self, path: Path, sink: pa.NativeFile | None = None) -> None:
        sink = pa.OSFile(str(path), "wb") if sink is None else sink
        is_lines = format_of(path) in (ResultFormat.JSON, ResultFormat.TABLE)
        self._table: TableWriter | None = None if is_lines else open_writer(path, _SCHEMA, sink)
        self._file = packed(path, sink) if is_lines else sink
        self._lock = threading.Lock()  # several inputs may be read at once

    def write(self, rejects: Iterable[Reject]) -> None:
        with self._lock:
            if self._table:
                self._table.write(_as_batch(list(rejects)))
            else:
                lines = (orjson.dumps(each, default=str, option=orjson.OPT_APPEND_NEWLINE) for each in rejects)
                self._file.write(b"".join(lines))

    def close(self) -> None:
        (self._table or self._file).close()

    def abandon(self, error: BaseException) -> None:
        """Close the file as it is, without an end that would make it look complete."""
        if self._table:
            self._table.abandon(error)
        else:
            with contextlib.suppress(OSError):  # the first error is the one to report
                self._file.close()


class RejectsOfReadings:
    """The rejects of rows that may be read several times. Each reading finds the same ones; each is written once."""

    def __init__(self) -> None:
        self.writer: RejectsWriter | None = None
        self._written = 0
        self._found = 0

    def begin(self) -> Self | None:
        """Begin a new reading, and return what its rejects are written to; None if they aren't written."""
        self._found = 0
        return self if self.writer else None

    def write(self, rejects: Sequence[Reject]) -> None:
        """Append the rejects that no earlier reading has found."""
        new = rejects[max(self._written - self._found, 0) :]
        self._found += len(rejects)
        self._written += len(new)
        if self.writer:
            self.writer.write(new)


def _as_batch(rejects: list[Reject]) -> pa.RecordBatch:
    rows = [
        {
            "position": r.position,
            "stream": r.stream,
            "reason": r.reason,
            "detail": r.detail,
            "row": orjson.dumps(r.row, default=str).decode(),
        }
        for r in rejects
    ]
    return pa.RecordBatch.from_pylist(rows, _SCHEMA)


class RefusalCounts:
    """Refused rows, counted by reason, with the first row of each."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self._late_by_us = 0

    def note(self, rejects: Iterable[Reject]) -> None:
        for each in rejects:
            self._counts[each.reason] += 1
            self._first.setdefault(each.reason, f"{each.stream}, position {each.position}: {each.detail}")
            if each.reason == LATE and (times := _LATE_BY.search(each.detail)):
                time, latest = (dt.datetime.fromisoformat(each) for each in times.groups())
                self._late_by_us = max(self._late_by_us, (latest - time) // _MICROSECOND)

    def figures(self, rows: int) -> dict[str, Any]:
        """A report's figures of refused rows; `rows` is the number of rows that were read.

        rejected_first: the first row of each reason, as "stream, position: detail"
        late_by_us: the most by which a late row's time was behind its stream's time
        """
        return {
            "rows": rows,
            "rejected": self._counts.total(),
            "rejected_by_reason": dict(sorted(self._counts.items())),
            "rejected_first": dict(self._first),
            "late_by_us": self._late_by_us,
        }


def merged_figures(reports: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of several inputs, added up."""
    found = list(reports)
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for each in found:
        counts.update(each["rejected_by_reason"])
        first = {**each["rejected_first"], **first}
    return {
        "rows": sum(each["rows"] for each in found),
        "rejected": counts.total(),
        "rejected_by_reason": dict(sorted(counts.items())),
        "rejected_first": first,
        "late_by_us": max((each["late_by_us"] for each in found), default=0),
    }
