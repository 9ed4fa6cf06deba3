"""Types that the first rows of a file have told must hold for all of them: a value that doesn't fit ends the run."""

from __future__ import annotations

import shlex

import pyarrow as pa

from spojoin.errors import ToldWrongly
from spojoin.model import ColumnType, Stream, TypeName
from spojoin.query.csv_options import NULL_WORDS
from spojoin.query.guessed import guessed
from spojoin.query.inferred import common_type
from spojoin.query.refusals import Refusals

#: Reasons of values that are none of a column's type.
_MISFITS = ("type", "overflow", "time", "nan")


def check_told(stream: Stream, batch: pa.RecordBatch, refusals: Refusals) -> None:
    """Raises ToldWrongly where a value shows that the first rows have told a column's type wrongly."""
    for name in stream.file.valueless.intersection(batch.schema.names):
        words = ("", *(NULL_WORDS if stream.file.csv.nullstr is None else stream.file.csv.nullstr))
        values = batch.column(name).drop_null()
        text = next((text for value in values if (text := str(value)).strip() not in words), None)
        if text is not None:
            raise _told_wrongly(stream, name, "empty", text, [_type_of(text) or ColumnType(TypeName.STRING)])
    rows = [row for row, (reason, _) in refusals.by_row.items() if reason in _MISFITS]
    for name in stream.file.guessed.intersection(batch.schema.names) if rows else ():
        column, declared = batch.column(name), stream.schema[name]
        for row in rows:
            found = _type_of(None if (value := column[row].as_py()) is None else str(value))
            if found is not None and common_type(declared, found) != declared:
                wider = common_type(declared, found)
                ways = [ColumnType(TypeName.STRING), declared] if wider is None else [wider]
                raise _told_wrongly(stream, name, str(declared), str(column[row]), ways)


def _type_of(text: str | None) -> ColumnType | None:
    return None if text is None else guessed(pa.array([text.strip()], pa.string()))


def _told_wrongly(stream: Stream, name: str, told: str, text: str, ways: list[ColumnType]) -> ToldWrongly:
    said = [_said(name, str(kind)) for kind in ways]
    meant = said[0] if len(said) == 1 else f"{said[0]} to read it as text, or {said[1]} to refuse such rows"
    return ToldWrongly(
        f"{stream.name}: column '{name}' is {told} in the first rows, but a later row has {text!r}: say {meant}"
    )


def _said(name: str, kind: str) -> str:
    return f"--schema {shlex.quote(f'{name}={kind}')} (in Python schema={ {name: kind}!r})"
