"""Reads an Arrow column as values of its declared type, for expressions and results; NULL stays NULL."""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spojoin.arrays import I64, Flags
from spojoin.columns import texts
from spojoin.columns.field import Field, plain_texts
from spojoin.columns.numbers import read_doubles, read_integers
from spojoin.columns.refusals import BadValue, Refusals
from spojoin.expressions.types import value_type
from spojoin.model import FLOATING, ColumnType, TypeName

_TRUE = ("true", "t", "yes", "y", "on", "1")
_FALSE = ("false", "f", "no", "n", "off", "0")
_BYTES = (pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


def read_values(name: str, kind: ColumnType, array: pa.Array, refusals: Refusals) -> pa.Array:
    """The column's n values in `value_type(kind)`. Refused rows hold arbitrary values."""
    target = value_type(kind)
    if array.type == target and (kind.arrow is not None or kind.name not in (TypeName.DECIMAL, TypeName.UUID)):
        return array
    column = Field(name, kind, plain_texts(array), refusals)
    read = _carried if kind.arrow is not None else _READERS.get(kind.name)
    if kind.name is TypeName.DECIMAL and not kind.is_coded and read is None:
        read = _wide_decimals
    return _from_codes(column, target) if read is None else read(column)


def _from_codes(column: Field, target: pa.DataType) -> pa.Array:
    """Numbers, dates and times, made from their codes."""
    nulls = np.zeros(len(column.array), np.bool_)
    if column.type.name in FLOATING:
        doubles = read_doubles(column.name, column.type, column.array, column.refusals, nulls)
        return pa.array(doubles, mask=nulls if nulls.any() else None).cast(target)
    values = read_integers(column.name, column.type, column.array, column.refusals, nulls=nulls)
    if column.type.name is TypeName.DECIMAL:
        return _decimals(values, nulls, target)
    in_range = _in_range(values, column.type)
    whole = pa.array(values if in_range is None else np.where(in_range, values, 0), mask=nulls if nulls.any() else None)
    return whole.cast(pa.int32()).cast(target) if pa.types.is_date32(target) else whole.cast(target)


def _in_range(values: I64, kind: ColumnType) -> Flags | None:
    """Which values fit 32 bits, if the type has no more; refused rows may hold values that don't."""
    if kind.name not in (TypeName.INT, TypeName.DATE):
        return None
    in_range: Flags = (values >= -(2**31)) & (values < 2**31)
    return in_range


def _decimals(values: I64, nulls: Flags, target: pa.DataType) -> pa.Array:
    """Scaled integers as decimals of two words; the upper word is the sign."""
    words = np.empty((len(values), 2), np.int64)
    words[:, 0], words[:, 1] = values, values >> 63
    valid = pa.array(~nulls).buffers()[1] if nulls.any() else None
    return pa.Array.from_buffers(target, len(values), [valid, pa.py_buffer(words)])


def _wide_decimals(column: Field) -> pa.Array:
    """Decimals with more digits than a 64-bit integer, read by Arrow if it can, otherwise one by one."""
    target = value_type(column.type)
    if pa.types.is_decimal(column.array.type) or pa.types.is_integer(column.array.type):
        try:
            return column.array.cast(target)
        except pa.ArrowInvalid:  # a value has too many digits
            pass
    return _each(column, _texts(column), lambda text: texts.wide_decimal(text, column.type), target)


def _carried(column: Field) -> pa.Array:
    """Values of an Arrow type, or of one that converts to it without loss, such as seconds to nanoseconds."""
    target = value_type(column.type)
    try:
        return column.array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.concat_arrays([pa.array([], target), *(_cast_alone(column, row) for row in range(len(column.array)))])


def _cast_alone(column: Field, row: int) -> pa.Array:
    target = value_type(column.type)
    try:
        return column.array.slice(row, 1).cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        column.refuse_row(row, "type")
        return pa.nulls(1, target)


def _texts(column: Field) -> pa.Array:
    if pa.types.is_string(column.array.type):
        return column.array
    try:
        return column.array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _none(column, pa.string())


def _booleans(column: Field) -> pa.Array:
    array = column.array
    if pa.types.is_integer(array.type):
        column.refuse(_mask(pc.invert(pc.is_in(array, value_set=pa.array([0, 1], array.type)))), "type")
        return pc.equal(array, 1)
    if not pa.types.is_string(array.type):
        return _none(column, pa.bool_())
    plain = pc.utf8_lower(pc.utf8_trim_whitespace(array))
    known = pc.is_in(plain, value_set=pa.array([*_TRUE, *_FALSE]))
    blank = _mask(pc.equal(plain, ""))
    column.refuse(_mask(pc.and_(pc.is_valid(array), pc.invert(known))) & ~blank, "type")
    return pc.if_else(
        pa.array(blank), None, pc.if_else(pc.is_valid(array), pc.is_in(plain, value_set=pa.array(_TRUE)), None)
    )


def _uuids(column: Field) -> pa.Array:
    array = uuid_texts(column.array) if is_uuid(column.array.type) else column.array
    if pa.types.is_fixed_size_binary(array.type) and array.type.byte_width == 16:
        return _each(column, array, lambda value: str(uuid.UUID(bytes=value)), pa.string())
    if not pa.types.is_string(array.type):
        return _none(column, pa.string())
    common = pc.match_substring_regex(array, _UUID)
    if pc.all(pc.fill_null(common, True), min_count=0).as_py():
        return array
    return _each(column, array, lambda value: str(uuid.UUID(value.strip())), pa.string())


def _bytes(column: Field) -> pa.Array:
    array = column.array
    if any(of(array.type) for of in _BYTES):
        return array.cast(pa.binary())
    if not pa.types.is_string(array.type):
        return _none(column, pa.binary())
    return _each(column, array, lambda value: base64.b64decode(value, validate=True), pa.binary())


def _each(column: Field, array: pa.Array, read: Callable[[Any], object], target: pa.DataType) -> pa.Array:
    """Values that Arrow can't read all at once, one by one."""
    found: list[object] = []
    for row, value in enumerate(array.to_pylist()):
        try:
            found.append(None if value is None else read(value))
        except (ValueError, binascii.Error, BadValue) as error:
            column.refuse_row(row, error.reason if isinstance(error, BadValue) else "type")
            found.append(None)
    return pa.array(found, target)


def _none(column: Field, target: pa.DataType) -> pa.Array:
    column.refuse(~_mask(pc.is_null(column.array)), "type")
    return pa.nulls(len(column.array), target)


def _mask(values: pa.Array) -> Flags:
    return np.asarray(pc.fill_null(values, False).to_numpy(zero_copy_only=False), np.bool_)


_READERS: dict[TypeName, Callable[[Field], pa.Array]] = {
    TypeName.STRING: _texts,
    TypeName.BOOLEAN: _booleans,
    TypeName.UUID: _uuids,
    TypeName.BINARY: _bytes,
    TypeName.MAP: lambda column: column.array,
}


#: The ranges of digits between the hyphens of a UUID, 8-4-4-4-12.
_PARTS = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)]

# pyarrow's type stubs don't allow mixing arrays and scalars.
_join: Any = pc.binary_join_element_wise


def is_uuid(arrow: pa.DataType) -> bool:
    """Whether a type is Arrow's extension type for UUIDs, also used for UUIDs in Parquet."""
    return getattr(arrow, "extension_name", "") == "arrow.uuid"


def uuid_texts(array: Any) -> pa.StringArray:  # noqa: ANN401  (the stubs lack the extension's array)
    """UUIDs (n,) of Arrow's extension type as text in lower case with hyphens; NULL stays NULL."""
    values = array.storage
    whole = [bytes(16) if each is None else each for each in values.to_pylist()]
    digits = b"".join(whole).hex().encode()
    ends = np.arange(len(whole) + 1, dtype=np.int32) * 32
    texts = pa.StringArray.from_buffers(len(whole), pa.py_buffer(ends), pa.py_buffer(digits))
    hyphened = _join(*[pc.utf8_slice_codeunits(texts, *part) for part in _PARTS], "-")
    present: pa.StringArray = pc.if_else(values.is_valid(), hyphened, pa.scalar(None, pa.string()))
    return present
