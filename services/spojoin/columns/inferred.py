"""Infers column types: those of Arrow data, and the narrowest types that hold the texts of a sample.

Text is a number, a date or a truth value only in the spelling in which such values are printed, so that codes with
leading zeros, identifiers of many digits and versions stay text. If a later value doesn't fit a guessed type, the run
ends.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from spojoin.columns.column_types import DECIMAL_PRECISION_MAX
from spojoin.columns.csv_options import NULL_WORDS
from spojoin.columns.numbers import read_doubles, read_integers
from spojoin.columns.refusals import Refusals
from spojoin.errors import WrongTypeGuess
from spojoin.model import UTC, ColumnType, Stream, TypeName

#: Decimal digits of unsigned 64-bit integers.
UINT64_DIGITS = 20


@dataclass(frozen=True, slots=True)
class InferredSchema:
    """The columns of some data, in their order, and why other columns can't be used.

    columns: the types by name; left_out: by name, a sentence about each column that no statement can name
    guessed: columns whose types come from the first rows of a text
    untyped: columns without any value, which are text until a statement shows more
    is_open: whether rows may have any other columns too
    """

    columns: Mapping[str, ColumnType]
    left_out: Mapping[str, str] = field(default_factory=dict)
    guessed: frozenset[str] = frozenset()
    untyped: frozenset[str] = frozenset()
    is_open: bool = False


_PLAIN: list[tuple[Callable[[pa.DataType], bool], TypeName]] = [
    (types.is_boolean, TypeName.BOOLEAN),
    (types.is_float64, TypeName.DOUBLE),
    (types.is_floating, TypeName.FLOAT),
    (types.is_date, TypeName.DATE),
    (types.is_string, TypeName.STRING),
    (types.is_large_string, TypeName.STRING),
    (types.is_string_view, TypeName.STRING),
    (types.is_null, TypeName.STRING),
    (types.is_binary, TypeName.BINARY),
    (types.is_large_binary, TypeName.BINARY),
    (types.is_binary_view, TypeName.BINARY),
    (types.is_fixed_size_binary, TypeName.BINARY),
]

_ADVICE: list[tuple[Callable[[pa.DataType], bool], str]] = [
    (types.is_union, "a union: make a column of each of its types first"),
    (types.is_run_end_encoded, "run-end encoded: decode it first, as by pyarrow.compute.run_end_decode"),
    (types.is_nested, "a nested type: make columns of its fields first"),
    (types.is_time, "a time of day: make it a timestamp, a number or text"),
    (types.is_duration, "a duration: make it a number, such as its milliseconds"),
    (types.is_interval, "an interval: make it a number, such as its days"),
    (types.is_decimal, "a decimal of more than 38 digits: make it a decimal(38,s) or text"),
]
_NO_LISTS = (types.is_union, types.is_run_end_encoded)
_CARRIED = (types.is_nested, types.is_time, types.is_duration, types.is_interval, types.is_decimal)


def infer_schema(schema: pa.Schema, *, carries: bool = False) -> InferredSchema:
    """The column types of an Arrow schema; columns of other types, or with one name, are left out with a sentence.

    A column without a type, all NULL, is a string.

    carries: whether each column keeps its Arrow type, so that values without a declared type are passed on unchanged:
    lists, times of day, durations, nanoseconds, unsigned 64-bit integers
    """
    columns: dict[str, ColumnType] = {}
    left_out: dict[str, str] = {}
    for each in schema:
        kind = _carried(each.type) if carries else column_type(each.type)
        if schema.names.count(each.name) > 1:
            left_out[each.name] = repeated_name(each.name)
        elif kind is None:
            left_out[each.name] = f"column {each.name!r} has type {each.type}, {_why_not(each.type)}"
        else:
            columns[each.name] = kind
    untyped = frozenset(each.name for each in schema if types.is_null(each.type) and each.name in columns)
    return InferredSchema(columns, left_out, untyped=untyped)


def repeated_name(name: str) -> str:
    """The sentence about a column with the same name as another one."""
    return f"column {name!r} occurs more than once: rename all but one"


def column_type(arrow: pa.DataType) -> ColumnType | None:
    """The type that holds an Arrow type's values; None if there is none."""
    if types.is_dictionary(arrow):
        return column_type(arrow.value_type)
    if isinstance(arrow, pa.BaseExtensionType):
        return _of_extension(arrow)
    if types.is_integer(arrow):
        return ColumnType(TypeName.INT if arrow.bit_width < 32 or types.is_int32(arrow) else TypeName.LONG)
    if types.is_decimal(arrow):
        return _decimal(arrow.precision, arrow.scale)
    if types.is_timestamp(arrow):
        return ColumnType(TypeName.TIMESTAMP, zone=arrow.tz)
    name = next((name for fits, name in _PLAIN if fits(arrow)), None)
    return None if name is None else ColumnType(name)


def _carried(arrow: pa.DataType) -> ColumnType | None:
    """The type that holds an Arrow type's values unchanged; None if there is none."""
    if types.is_dictionary(arrow):
        values = _carried(arrow.value_type)
        return values if values is None else replace(values, is_ranked=arrow.ordered)
    if types.is_uint64(arrow):
        return ColumnType(TypeName.DECIMAL, UINT64_DIGITS, arrow=arrow)
    known = column_type(arrow)
    if known is not None:
        return replace(known, arrow=arrow) if types.is_timestamp(arrow) and arrow.unit == "ns" else known
    is_passed = any(of(arrow) for of in _CARRIED) and not any(of(arrow) for of in _NO_LISTS)
    return ColumnType(TypeName.CARRIED, arrow=arrow) if is_passed else None


def _of_extension(arrow: pa.BaseExtensionType) -> ColumnType | None:
    """The type of UUIDs and JSON, which are text; None for other extensions, which don't define how values compare."""
    name = {"arrow.uuid": TypeName.UUID, "arrow.json": TypeName.STRING}.get(getattr(arrow, "extension_name", ""))
    return None if name is None else ColumnType(name)


def _decimal(precision: int, scale: int) -> ColumnType | None:
    """A decimal type; a negative scale adds zeros. None if it has more digits than DuckDB allows."""
    digits = precision - min(scale, 0)
    return ColumnType(TypeName.DECIMAL, digits, max(scale, 0)) if digits <= DECIMAL_PRECISION_MAX else None


def _why_not(arrow: pa.DataType) -> str:
    return next((advice for fits, advice in _ADVICE if fits(arrow)), "which no column can have: cast it first")


def common_type(one: ColumnType, other: ColumnType) -> ColumnType | None:
    """The type that holds the values of both types, for two files of one stream; None if there is none."""
    if one == other:
        return one
    names = {one.name, other.name}
    if names == {TypeName.INT, TypeName.LONG}:
        return ColumnType(TypeName.LONG)
    if names <= {TypeName.INT, TypeName.LONG, TypeName.FLOAT, TypeName.DOUBLE}:
        return ColumnType(TypeName.DOUBLE)
    if names == {TypeName.DECIMAL}:
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        return ColumnType(TypeName.DECIMAL, min(whole + scale, DECIMAL_PRECISION_MAX), scale)
    return _common_moment(one, other) if names <= {TypeName.DATE, TypeName.TIMESTAMP} else None


def _common_moment(one: ColumnType, other: ColumnType) -> ColumnType | None:
    """The common type of dates and timestamps that are either all with or all without a zone; otherwise None."""
    if (one.zone is None) is (other.zone is None):
        zone = one.zone if one.zone == other.zone else UTC
        is_finer = one.arrow is not None or other.arrow is not None
        return ColumnType(TypeName.TIMESTAMP, zone=zone, arrow=pa.timestamp("ns", zone) if is_finer else None)
    return None


#: Spellings by type, the narrowest type first. A text must also be a value of the type: February 30 isn't a date.
_SPELLINGS = {
    TypeName.BOOLEAN: r"^(?i:true|false)$",
    TypeName.LONG: r"^(-?[1-9][0-9]{0,18}|0)$",
    TypeName.DOUBLE: r"^(-?(0|[1-9][0-9]{0,14})?(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?|-?(?i:inf|infinity|nan))$",
    TypeName.DATE: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    TypeName.TIMESTAMP: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
    r"(Z|z|[+-][0-9]{2}(:?[0-9]{2})?)?)?$",
}
_ZONE = r"(Z|z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_TIME_OF_DAY = "[T ]"
_DIGIT = "[0-9]"
_NAN = "^-?(?i:nan)$"
_WRITTEN_OUT = re.compile(r"-?(0|[1-9][0-9]*)(?:\.([0-9]+))?")
_DIGITS_MAX = 38


def narrowest_type(texts: pa.StringArray, among: Sequence[TypeName] = tuple(_SPELLINGS)) -> ColumnType | None:
    """The type of a column by its trimmed texts; a string if no narrower type holds them all.

    NULLs are ignored; None if there are only NULLs. among: the types to try.
    """
    values = pc.unique(texts.drop_null())
    if not len(values):
        return None
    found = ColumnType(next((name for name in among if _fits(values, name)), TypeName.STRING))
    return replace(found, zone=UTC) if found.name is TypeName.TIMESTAMP and _has_zone(values) else found


def wide_decimal(texts: Iterable[str]) -> ColumnType | None:
    """The decimal type for numbers with more digits than a long or a double holds; None beyond 38 digits."""
    found = [_WRITTEN_OUT.fullmatch(each) for each in texts]
    parts = [match.groups("") for match in found if match is not None]
    whole, fraction = (max((len(part[k]) for part in parts), default=0) for k in (0, 1))
    if not parts or len(parts) < len(found) or whole + fraction > _DIGITS_MAX:
        return None
    return ColumnType(TypeName.DECIMAL, precision=_DIGITS_MAX, scale=fraction)


def _has_zone(moments: pa.StringArray) -> bool:
    """Whether any time of day has a zone: the column then holds instants, in UTC if they name no zone, as in DuckDB."""
    is_zoned = pc.and_(pc.match_substring_regex(moments, _TIME_OF_DAY), pc.match_substring_regex(moments, _ZONE))
    return bool(pc.any(is_zoned, min_count=0).as_py())


def _fits(values: pa.StringArray, name: TypeName) -> bool:
    """Whether every text is a value of the type in its common spelling."""
    if not pc.all(pc.match_substring_regex(values, _SPELLINGS[name])).as_py():
        return False
    if name is TypeName.BOOLEAN:
        return True
    if not pc.any(pc.match_substring_regex(values, _DIGIT)).as_py():
        return False  # a column of words only isn't one of numbers
    numbers = values.filter(pc.invert(pc.match_substring_regex(values, _NAN)))
    refusals = Refusals(len(numbers))
    if name is TypeName.DOUBLE:
        read_doubles("", ColumnType(name), numbers, refusals)
    else:  # a time may have more than six digits of a second
        read_integers("", ColumnType(name), numbers, refusals, cuts=True)
    return not refusals.by_row


#: The reasons for refusing values that aren't of a column's type.
_MISFITS = ("type", "overflow", "time", "nan")


def check_guessed_types(stream: Stream, batch: pa.RecordBatch, refusals: Refusals) -> None:
    """Raises WrongTypeGuess if a value doesn't fit the type that the first rows of its column suggested."""
    for name in stream.file.valueless.intersection(batch.schema.names):
        words = ("", *(NULL_WORDS if stream.file.csv.nullstr is None else stream.file.csv.nullstr))
        values = batch.column(name).drop_null()
        text = next((text for value in values if (text := str(value)).strip() not in words), None)
        if text is not None:
            raise _wrong_guess(stream, name, "empty", text, [_type_of(text) or ColumnType(TypeName.STRING)])
    rows = [row for row, (reason, _) in refusals.by_row.items() if reason in _MISFITS]
    for name in stream.file.guessed.intersection(batch.schema.names) if rows else ():
        column, declared = batch.column(name), stream.schema[name]
        for row in rows:
            found = _type_of(None if (value := column[row].as_py()) is None else str(value))
            if found is not None and common_type(declared, found) != declared:
                wider = common_type(declared, found)
                ways = [ColumnType(TypeName.STRING), declared] if wider is None else [wider]
                raise _wrong_guess(stream, name, str(declared), str(column[row]), ways)


def _type_of(text: str | None) -> ColumnType | None:
    return None if text is None else narrowest_type(pa.array([text.strip()], pa.string()))


def _wrong_guess(stream: Stream, name: str, guess: str, text: str, ways: list[ColumnType]) -> WrongTypeGuess:
    options = [_schema_option(name, str(kind)) for kind in ways]
    meant = options[0] if len(options) == 1 else f"{options[0]} to read it as text, or {options[1]} to refuse such rows"
    return WrongTypeGuess(
        f"{stream.name}: column '{name}' is {guess} in the first rows, but a later row has {text!r}: give {meant}"
    )


def _schema_option(name: str, kind: str) -> str:
    return f"--schema {shlex.quote(f'{name}={kind}')} (in Python schema={ {name: kind}!r})"
