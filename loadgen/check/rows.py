"""Input messages as the checker reads them: plain Python values row by row, independent of the product's readers.

A row that can't take part gets every reason that applies to it: `malformed` (not a row at all), `missing-field`,
`null` (no key), `nan` (where an integer or decimal is expected), `type` (no value of the declared type), `overflow`
(beyond the type's range) or `time` (no time). NULL is a normal value in any other column.
"""

from __future__ import annotations

import csv
import json
import math
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, TypeVar, cast
from uuid import UUID

import numpy as np
import pyarrow as pa

from loadgen.check.spark_sql import arrow_type
from loadgen.load.formats import MessageFormat
from spojoin.columns.stream_columns import arrow_schema
from spojoin.model import (
    Column,
    ColumnType,
    Computed,
    Constant,
    Domain,
    Expression,
    KeyColumn,
    Stream,
    TimeUnit,
    TypeName,
)

Value = str | int | float | Decimal | date | datetime | None
#: A value of any kind as it was read; its conversion raises TypeError if the kind does not fit.
Unchecked = Any
Row = dict[str, Any]
T = TypeVar("T")
Exact = int | float | Fraction
Cell = int | float | Decimal | str | bytes | bool

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)
#: Cells of CSV that mean a missing value.
MISSING = frozenset(["", "NA", "N/A", "#N/A", "n/a", "<NA>", "NULL", "Null", "null", "None"])
_RANGES = {TypeName.INT: 2**31, TypeName.LONG: 2**63}
_DAY_US = 86_400_000_000
_DATE_TYPE, _TIMESTAMP_TYPE = ColumnType(TypeName.DATE), ColumnType(TypeName.TIMESTAMP)
_MILLISECONDS_TYPE = ColumnType(TypeName.TIMESTAMP, unit=TimeUnit.MILLISECONDS)
_TICKS: dict[str, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: A timestamp without a unit is in milliseconds; it is doubtful if another unit gives a present-day time.
_NOT_MILLISECONDS = [ticks for unit, ticks in _TICKS.items() if unit != "ms"]
_OUR_DAYS = tuple(int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1990, 2100))
_DECODER = json.JSONDecoder(parse_float=Decimal)


class Refusal(Exception):
    """A value is unusable; holds the word for the reason."""


# --- messages to rows -------------------------------------------------------------------------------------------------


def rows_of(value: bytes, columns: list[str], key: str | None) -> list[Row | None]:
    """The rows of one message in any format; None stands for a row that can't be read.

    `columns` names the fields of a CSV line, and `key` the field of the users' keys.
    """
    try:
        return _READERS[format_of(value)](value, columns, key)
    except (ValueError, pa.ArrowInvalid, csv.Error):
        return [None]


def format_of(value: bytes) -> MessageFormat:
    """A message's format by its first bytes: an Arrow IPC stream's continuation mark, a brace, or neither."""
    if value[:4] == b"\xff\xff\xff\xff":
        return MessageFormat.ARROW
    return MessageFormat.JSON if value.lstrip()[:1] == b"{" else MessageFormat.CSV


def _json(value: bytes, columns: list[str], key: str | None) -> list[Row | None]:
    """Read one object in any layout, or one object per line."""
    lines = [line.strip() for line in value.split(b"\n") if line.strip()]
    if len(lines) > 1 and all(line[:1] == b"{" and line[-1:] == b"}" for line in lines):
        return [row for line in lines for row in rows_of(line, columns, key)]
    row = _DECODER.decode(value.decode())
    return [row if isinstance(row, dict) else None]


def _csv(value: bytes, columns: list[str], key: str | None) -> list[Row | None]:
    lines = [line for line in value.decode().splitlines() if line.strip()]
    return [_csv_row(line, columns, key) for line in lines] or [None]


def _csv_row(line: str, columns: list[str], key: str | None) -> Row | None:
    cells = next(csv.reader([line], strict=True))
    if len(cells) != len(columns):
        return None
    named = zip(columns, cells, strict=True)
    return {name: None if text == "" or (text in MISSING and name != key) else text for name, text in named}


def _arrow(value: bytes, columns: list[str], key: str | None) -> list[Row | None]:
    return list(pa.ipc.open_stream(value).read_all().to_pylist())


_READERS: dict[MessageFormat, Callable[[bytes, list[str], str | None], list[Row | None]]] = {
    MessageFormat.JSON: _json,
    MessageFormat.CSV: _csv,
    MessageFormat.ARROW: _arrow,
}


# --- values -----------------------------------------------------------------------------------------------------------


def field_of(row: Row, name: str) -> Value:
    """A field's value. Raises Refusal if there is no such field."""
    if name not in row:
        raise Refusal("missing-field")
    return cast("Value", row[name])


def exact(value: Value, column: ColumnType) -> Exact:
    """A value as its column's type has it: a float for float and double, otherwise an exact number.

    Dates are days, timestamps microseconds since 1970. Raises Refusal.
    """
    return _converted(value, column, _CONVERTERS[column.name])


def _converted(
    value: Value, column: ColumnType, convert: Callable[[Any, ColumnType], T], *, takes_booleans: bool = False
) -> T:
    if value is None:
        raise Refusal("null")
    if isinstance(value, bool) and not takes_booleans:
        raise Refusal("type")
    try:
        return convert(value, column)
    except (ValueError, TypeError, InvalidOperation) as error:
        raise Refusal("type") from error
    except OverflowError as error:
        raise Refusal("overflow") from error


def _double(value: Unchecked, column: ColumnType) -> float:
    number = float(value)
    # A written infinity is a value; a finite number that is rounded to infinity isn't.
    if math.isinf(number) and not _says_infinity(value):
        raise Refusal("overflow")
    return number


def _says_infinity(value: Value) -> bool:
    return "inf" in str(value).lower()


def _float(value: Unchecked, column: ColumnType) -> float:
    number = _double(value, column)
    with np.errstate(over="ignore"):
        single = float(np.float32(number))
    if math.isinf(single) and not math.isinf(number):
        raise Refusal("overflow")
    return single


def _integer(value: Unchecked, column: ColumnType) -> int:
    number = Decimal(value) if isinstance(value, str | Decimal) else value
    if isinstance(number, float | Decimal) and math.isnan(number):
        raise Refusal("nan")
    whole = int(number)
    if whole != number:
        raise Refusal("type")
    if not -_RANGES[column.name] <= whole < _RANGES[column.name]:
        raise Refusal("overflow")
    return whole


def _decimal(value: Unchecked, column: ColumnType) -> Fraction:
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if number.is_nan():
        raise Refusal("nan")
    scaled = Fraction(number) * 10**column.scale
    if scaled.denominator != 1:
        raise Refusal("type")
    if abs(scaled) >= 10**column.precision:
        raise Refusal("overflow")
    return Fraction(number)


def _date(value: Unchecked, column: ColumnType) -> int:
    day = value if isinstance(value, date) else date.fromisoformat(value)
    return (day - _EPOCH.date()).days


def timestamp_us(value: Unchecked, column: ColumnType, *, floors: bool = False) -> int:
    """Microseconds of a datetime, ISO text (no zone: UTC), or a number in the type's unit; without one milliseconds.

    floors: whether a fraction of a microsecond is dropped; otherwise it is refused
    """
    number = _number(value)
    if number is None:
        return _iso_us(value) if isinstance(value, str) else _moment_us(value)
    if column.unit is None and any(_OUR_DAYS[0] <= number / ticks < _OUR_DAYS[1] for ticks in _NOT_MILLISECONDS):
        raise Refusal("unit")
    moment = number * 10**6 / _TICKS[column.unit or "ms"]
    if moment.denominator != 1 and not floors:
        raise Refusal("type")
    return math.floor(moment)


def _number(value: Value) -> Fraction | None:
    """A number or a number's text as a fraction; None for other values."""
    if isinstance(value, str):
        try:
            return Fraction(Decimal(value))
        except InvalidOperation:
            return None
    return Fraction(str(value)) if isinstance(value, int | float | Decimal) else None


@lru_cache(1 << 14)  # hours and days repeat in thousands of rows
def _iso_us(text: str) -> int:
    return _moment_us(datetime.fromisoformat(text))


def _moment_us(moment: datetime) -> int:
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _US


_CONVERTERS: dict[TypeName, Callable[[Any, ColumnType], Exact]] = {
    TypeName.INT: _integer,
    TypeName.LONG: _integer,
    TypeName.FLOAT: _float,
    TypeName.DOUBLE: _double,
    TypeName.DECIMAL: _decimal,
    TypeName.DATE: _date,
    TypeName.TIMESTAMP: timestamp_us,
}


def _time_us(row: Row, stream: Stream) -> int:
    assert stream.time is not None
    value = field_of(row, stream.time)
    declared = stream.schema.get(stream.time, _TIMESTAMP_TYPE)
    try:
        if declared.name is TypeName.DATE:
            return int(exact(value, _DATE_TYPE)) * _DAY_US
        is_counted = declared.name in (TypeName.INT, TypeName.LONG)
        return _converted(value, _MILLISECONDS_TYPE if is_counted else declared, partial(timestamp_us, floors=True))
    except Refusal as refusal:
        raise Refusal("unit" if str(refusal) == "unit" else "time") from refusal


# --- cells of columns that results, filters and expressions name ---------------------------------------------------


def cell(value: Value, column: ColumnType) -> Cell:
    """A value as Arrow takes it for a column of this type. Raises Refusal."""
    if column.name in _CELLS:
        return cast("Cell", _converted(value, column, _CELLS[column.name], takes_booleans=True))
    number = exact(value, column)
    return Decimal(int(number * 10**column.scale)).scaleb(-column.scale) if isinstance(number, Fraction) else number


def _text(value: Unchecked, column: ColumnType) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _boolean(value: Unchecked, column: ColumnType) -> bool:
    words = {True: True, False: False, "true": True, "false": False}
    if value not in words:
        raise TypeError
    return words[value]


def _uuid(value: Unchecked, column: ColumnType) -> str:
    return str(UUID(bytes=value) if isinstance(value, bytes) else UUID(value))


def _binary(value: Unchecked, column: ColumnType) -> bytes:
    return value if isinstance(value, bytes) else b64decode(value, validate=True)


_CELLS: dict[TypeName, Callable[[Any, ColumnType], Any]] = {
    TypeName.STRING: _text,
    TypeName.BOOLEAN: _boolean,
    TypeName.UUID: _uuid,
    TypeName.BINARY: _binary,
}


# --- expressions ------------------------------------------------------------------------------------------------------


def key_value(key: KeyColumn, row: Row, schema: dict[str, ColumnType]) -> float | int:
    """A predicate's operand: a float by IEEE arithmetic, or an exact integer at the key column's scale."""
    if key.rounding is not None:
        raise ValueError(f"{key.text}: the checker doesn't compare doubles with integers or decimals")
    if key.domain is Domain.FLOAT:
        return _as_written(key.expression, row, schema)
    if isinstance(key.expression, Column) and key.scale == 0:
        return int(exact(field_of(row, key.expression.name), schema[key.expression.name]))
    scaled = _exactly(key.expression, row, schema) * 10**key.scale
    if scaled.denominator != 1:
        raise ArithmeticError(f"{key.text} needs more digits than its scale {key.scale}")
    if not -(2**63) <= scaled < 2**63:
        raise Refusal("overflow")
    return int(scaled)


def _as_written(expression: Expression, row: Row, schema: dict[str, ColumnType]) -> float:
    if isinstance(expression, Column):
        return float(exact(field_of(row, expression.name), schema[expression.name]))
    with np.errstate(all="ignore"):
        return float(_float64(expression, row, schema))


def _float64(expression: Expression, row: Row, schema: dict[str, ColumnType]) -> np.float64:
    if isinstance(expression, Column):
        return np.float64(exact(field_of(row, expression.name), schema[expression.name]))
    if isinstance(expression, Computed):
        raise TypeError(f"{expression.sql} is for Spark to evaluate")
    if isinstance(expression, Constant):
        return np.float64(float(expression.value))
    left, right = _float64(expression.left, row, schema), _float64(expression.right, row, schema)
    return np.float64(_ARITHMETIC[expression.operator](left, right))


def _exactly(expression: Expression, row: Row, schema: dict[str, ColumnType]) -> Fraction:
    if isinstance(expression, Column):
        return Fraction(exact(field_of(row, expression.name), schema[expression.name]))
    if isinstance(expression, Computed):
        raise TypeError(f"{expression.sql} is for Spark to evaluate")
    if isinstance(expression, Constant):
        return expression.value
    left, right = _exactly(expression.left, row, schema), _exactly(expression.right, row, schema)
    return Fraction(_ARITHMETIC[expression.operator](left, right))


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


# --- whole topics -----------------------------------------------------------------------------------------------------


#: Columns of a message that `parse` reads.
MESSAGE = ("partition", "offset", "value")


def is_read_here(key: KeyColumn) -> bool:
    """Whether a key column is evaluated with the row; others are plain columns, or Spark evaluates them."""
    return key.domain is not Domain.ASSIGNED and not isinstance(key.expression, Computed)


def kept_columns(stream: Stream) -> list[str]:
    """Columns of an input that results, filters or expressions name, in a fixed order."""
    filters = [member.filter for member in stream.fed(0) if member.filter is not None]
    computed = [each.condition for each in filters]
    names = list(stream.payload)
    for key in stream.keys:
        if isinstance(key.expression, Computed):
            computed.append(key.expression)
        elif isinstance(key.expression, Column) and key.domain is Domain.ASSIGNED:
            names.append(key.expression.name)
    return list(dict.fromkeys([*names, *(name for each in computed for name in each.columns)]))


def history_columns(stream: Stream) -> dict[str, str]:
    """For each column that a history of the stream needs, its name in the output of `parse`."""
    found = {name: f"c{i}" for i, name in enumerate(kept_columns(stream))}
    return _read_anyway(stream) | found | {name: f"h{i}" for i, name in enumerate(_others(stream))}


def _read_anyway(stream: Stream) -> dict[str, str]:
    """The time and the key, if the value read for all checks is the column's own."""
    found = {}
    if stream.time is not None and stream.schema.get(stream.time, _TIMESTAMP_TYPE).name is TypeName.TIMESTAMP:
        found[stream.time] = "time_us"
    if stream.key is not None and stream.key not in stream.schema:
        found[stream.key] = "key"
    return found


def _others(stream: Stream) -> list[str]:
    found = {*kept_columns(stream), *_read_anyway(stream)}
    return [name for name in arrow_schema(stream).names if name not in found]


def parsed_schema(stream: Stream, *, for_history: bool = False) -> pa.Schema:
    """Columns of `parse`: the row's place, the reasons for its refusal (words joined by blanks), and its values.

    k<slot>: key columns that are evaluated here; c<i>: the columns of `kept_columns`
    for_history: whether others of `history_columns` follow, h<i>
    """
    fields = [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("row", pa.int64()),
        ("reasons", pa.string()),
        ("time_us", pa.int64()),
        ("key", pa.string()),
    ]
    keys = [
        (f"k{slot}", pa.float64() if key.domain is Domain.FLOAT else pa.int64())
        for slot, key in enumerate(stream.keys)
        if is_read_here(key)
    ]
    kept = [(f"c{i}", arrow_type(stream.type_of(name))) for i, name in enumerate(kept_columns(stream))]
    others = [
        (f"h{i}", arrow_type(stream.type_of(name))) for i, name in enumerate(_others(stream) if for_history else ())
    ]
    return pa.schema(fields + keys + kept + others)


def parse(
    batches: Iterable[pa.RecordBatch],
    stream: Stream,
    columns: list[str],
    needs_time: bool,
    *,
    for_history: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Messages (partition, offset, value) as rows with the columns of `parsed_schema`."""
    schema = parsed_schema(stream, for_history=for_history)
    names = kept_columns(stream), _others(stream) if for_history else []
    for batch in batches:
        rows: list[tuple[Any, ...]] = []
        for partition, offset, value in zip(*(batch[name].to_pylist() for name in MESSAGE), strict=True):
            for number, (row, position) in enumerate(_placed(value or b"", columns, stream, f"{partition}:{offset}")):
                read = _read(row, stream, names, needs_time, position)
                rows.append((partition, offset, number, *read))
                if _lacks_a_column(value or b"", read[0]):
                    break
        arrays = [pa.array([r[i] for r in rows], field.type) for i, field in enumerate(schema)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _placed(value: bytes, columns: list[str], stream: Stream, message: str) -> list[tuple[Row | None, str]]:
    """A message's rows, each with its position."""
    found = rows_of(value, columns, stream.key)
    return [(row, f"{message}:{number}" if len(found) > 1 else message) for number, row in enumerate(found)]


def _lacks_a_column(value: bytes, reasons: str | None) -> bool:
    """Whether an Arrow message is refused as a whole: if one row lacks a column, all do."""
    return format_of(value) is MessageFormat.ARROW and "missing-field" in (reasons or "").split()


def _read(
    row: Row | None, stream: Stream, names: tuple[list[str], list[str]], needs_time: bool, position: str
) -> tuple[Any, ...]:
    """(reasons, time_us, key, values...) of a row; names: of the columns that are kept, and of others."""
    keys = [key for key in stream.keys if is_read_here(key)]
    kept, others = names
    if row is None:
        return ("malformed", *(None for _ in range(2 + len(keys) + len(kept) + len(others))))
    reasons: list[str] = []
    time_us = _or_refused(lambda: _time_us(row, stream), reasons) if needs_time else None
    values = [_or_refused(partial(_or_null, key_value, k, row, stream.schema), reasons) for k in keys]
    cells = [_or_refused(partial(_or_null, _cell, name, row, stream), reasons) for name in kept]
    key = _or_refused(lambda: _key(row, stream, position), reasons)
    # Keys from another column give that column's reason for refusal.
    rest = [_or_refused(partial(_or_null, _cell, name, row, stream), []) for name in others]
    return (" ".join(dict.fromkeys(reasons)) or None, time_us, key, *values, *cells, *rest)


def _cell(name: str, row: Row, stream: Stream) -> Cell:
    return cell(field_of(row, name), stream.type_of(name))


def _or_null(read: Callable[..., T], *arguments: object) -> T | None:
    """The value that `read` returns; None for NULL."""
    try:
        return read(*arguments)
    except Refusal as refusal:
        if str(refusal) == "null":
            return None
        raise


def _key(row: Row, stream: Stream, position: str) -> str:
    """The users' key as text; the row's position if the stream names no key."""
    if stream.key is None:
        return position
    key = field_of(row, stream.key)
    if key is None or key == "":
        raise Refusal("null")
    return str(key)


def _or_refused(read: Callable[[], T], reasons: list[str]) -> T | None:
    try:
        return read()
    except Refusal as refusal:
        reasons.append(str(refusal))
        return None
