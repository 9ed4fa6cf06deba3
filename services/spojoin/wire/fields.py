"""Codings of the fields of records: how each kind is written and read; and what a type does not say of its field.

`headers.py` chooses the coding of a field by its type in `records.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import Descriptor

from spojoin.arrays import DTYPES, I64, U8
from spojoin.errors import WireError
from spojoin.model import TRACEPARENT
from spojoin.wire.columns import ColumnReader, ColumnWriter
from spojoin.wire.sums import Sums

#: A field's value, and a protobuf message.
Value: TypeAlias = Any
Header: TypeAlias = Any
Dtype = np.dtype[Any]

_I64, _U8 = DTYPES[I64], DTYPES[U8]


class Coding(NamedTuple):
    """How the value of a field gets into a header and columns, and out of them."""

    write: Callable[[Value, Header, ColumnWriter], None]
    read: Callable[[Header, ColumnReader], Value]


def scalar(name: str, absent: Value = None) -> Coding:
    """A number, a truth value, text or bytes; `absent` is what 0 stands for."""
    return Coding(lambda v, header, _: setattr(header, name, v), lambda header, _: getattr(header, name) or absent)


def listed(name: str) -> Coding:
    """A tuple of numbers or texts in the header."""
    return Coding(lambda v, header, _: getattr(header, name).extend(v), lambda header, _: tuple(getattr(header, name)))


def mapped(name: str) -> Coding:
    """Numbers by text, in the header."""
    return Coding(lambda v, header, _: getattr(header, name).update(v), lambda header, _: dict(getattr(header, name)))


def array(dtype: Dtype) -> Coding:
    return Coding(lambda v, _, columns: columns.array(v, dtype), lambda _, columns: columns.array(dtype))


def optional_array(dtype: Dtype) -> Coding:
    return Coding(lambda v, _, columns: columns.optional(v, dtype), lambda _, columns: columns.optional(dtype))


def arrays(dtype: Dtype, count: str) -> Coding:
    """A tuple of arrays, whose number the header holds."""

    def write(value: Value, header: Header, columns: ColumnWriter) -> None:
        setattr(header, count, len(value))
        for values in value:
            columns.array(values, dtype)

    return Coding(write, lambda header, columns: tuple(columns.array(dtype) for _ in range(getattr(header, count))))


KEYS = Coding(lambda v, _, columns: columns.keys(v), lambda _, columns: columns.keys())
ROWS = Coding(lambda v, _, columns: columns.rows(v), lambda _, columns: columns.rows())
TRACES = Coding(
    lambda v, _, columns: columns.rows(pa.record_batch({TRACEPARENT: v})), lambda _, columns: columns.rows().column(0)
)


def flagged(inner: Coding, flag: str, absent: Value) -> Coding:
    """A field of which the header says whether it is there, which is whether it is neither None nor empty."""

    def write(value: Value, header: Header, columns: ColumnWriter) -> None:
        if value is not None and (absent is None or len(value)):
            setattr(header, flag, True)
            inner.write(value, header, columns)

    return Coding(write, lambda header, columns: inner.read(header, columns) if getattr(header, flag) else absent)


def guidance(absent: Value) -> Coding:
    """An array that is there if one more column is left than the header calls for; older frames always have it."""

    def write(value: Value, _: Header, columns: ColumnWriter) -> None:
        if len(value):
            columns.array(value, _U8)

    def read(header: Header, columns: ColumnReader) -> Value:
        called_for = header.has_silent + header.unjoined_columns + header.closing_columns
        return columns.array(_U8) if columns.left > called_for else absent

    return Coding(write, read)


def by_pair(name: str, inner: Coding, entry: Descriptor) -> Coding:
    """Values by two numbers, which are the first fields of an entry in the header."""
    first, second = (field.name for field in entry.fields[:2])

    def write(value: Value, header: Header, columns: ColumnWriter) -> None:
        for pair, held in value.items():
            inner.write(held, getattr(header, name).add(**{first: pair[0], second: pair[1]}), columns)

    def read(header: Header, columns: ColumnReader) -> Value:
        return {(getattr(e, first), getattr(e, second)): inner.read(e, columns) for e in getattr(header, name)}

    return Coding(write, read)


def pair(dtype: Dtype) -> Coding:
    """Two arrays."""

    def write(value: Value, _: Header, columns: ColumnWriter) -> None:
        for values in value:
            columns.array(values, dtype)

    return Coding(write, lambda _, columns: (columns.array(dtype), columns.array(dtype)))


def _write_sums(value: Sums | None, header: Header, columns: ColumnWriter) -> None:
    header.sums.append(0 if value is None else len(value.keys))
    if value is not None and len(value.keys):
        columns.array(value.keys, _I64)
        columns.array(np.ravel(value.rows), _I64)


def _read_sums(header: tuple[Header, int], columns: ColumnReader) -> Sums | None:
    part, direction = header
    count = part.sums[direction] if direction < len(part.sums) else 0
    if not count:
        return None
    keys, rows = columns.array(_I64), columns.array(_I64)
    if len(keys) != count or len(rows) % count:
        raise WireError(f"a part's sums have {len(keys)} keys and {len(rows)} values, expected {count} rows of them")
    return Sums(keys, rows.reshape(count, -1))


#: A direction's sums; the part's header holds how many keys each direction has.
SUMS = Coding(_write_sums, _read_sums)


#: The allowed lengths of a field of a record, by the record and its size.
Lengths = Callable[[Any, int], tuple[int, ...]]


def any_length(_record: object, _size: int) -> tuple[int, ...]:
    """A length that no other field gives: it is not checked."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What the type of a field doesn't say.

    coding: the coding, if the type alone does not determine it
    names: its fields in the header, if they have another name; they hold it, its entries, or its count
    flag: the header's field that says whether an optional field is there, instead of the column directory
    columns: the header's field that counts the field's columns
    lengths: None if it is as long as the record
    rises, ascends, is_rank: whether each value is greater than the one before, not less, or less than the record's size
    absent: what a field that is 0 or empty stands for
    is_late: whether its columns follow those of all other fields; is_local: whether it doesn't travel
    """

    coding: Coding | None = None
    names: tuple[str, ...] = ()
    flag: str = ""
    columns: str = ""
    lengths: Lengths | None = None
    rises: bool = False
    ascends: bool = False
    is_rank: bool = False
    absent: Any = None
    is_late: bool = False
    is_local: bool = False


T = TypeVar("T")
#: A field that doesn't travel.
Local: TypeAlias = Annotated[T, Wire(is_local=True)]
#: A field that most records lack, so that it takes no entry in the column directory of those.
Seldom: TypeAlias = Annotated[T | None, Wire(flag="has_{}")]
AnyLength: TypeAlias = Annotated[T, Wire(lengths=any_length)]
Rising: TypeAlias = Annotated[T, Wire(rises=True)]
#: One value for all rows of the record, or one for each.
OneOrEach: TypeAlias = Annotated[T, Wire(lengths=lambda _, size: (1, size))]
Codes: TypeAlias = Annotated[tuple[I64, ...], Wire(names=("code_columns",))]
