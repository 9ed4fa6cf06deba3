"""Converts Arrow columns to codes, times and keys, and reports every refused row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spojoin.errors import BadData
from spojoin.kernels.codes import fold_doubles
from spojoin.model import Column, Domain, KeyColumn, Stream
from spojoin.query.convert import read_doubles, read_integers
from spojoin.query.field import INT64_MAX, INT64_MIN
from spojoin.query.floating import evaluate
from spojoin.query.linear import ScaledForm, linear_form, scaled
from spojoin.query.refusals import Refusals
from spojoin.query.times import read_times_us

_SAFE_MAGNITUDE = 2.0**62  # half of int64's: leaves room for the rounding of a sum of doubles


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that can't take part: its position in the batch, a short stable reason, and a sentence."""

    row: int
    reason: str
    detail: str


@dataclass(slots=True)
class Extracted:
    """The n kept rows of a record batch.

    kept: int64 (n,), their positions in the batch, ascending
    codes: one int64 (n,) per key column; times_us: int64 (n,) or None
    keys: Arrow int64 or string array (n,), or None where the stream names no key column
    """

    kept: NDArray[np.int64]
    codes: tuple[NDArray[np.int64], ...]
    times_us: NDArray[np.int64] | None
    keys: pa.Array | None
    refused: list[Refused]


def extract(stream: Stream, batch: pa.RecordBatch, needs_time: bool) -> Extracted:
    """The batch's rows as codes, event times (where `needs_time`) and keys.

    Reasons of refused rows: null, nan, type, unit, overflow, time. BadData where the batch lacks a column that is used.
    """
    columns = _BatchColumns(stream, batch, Refusals(batch.num_rows))
    codes = [_codes(columns, key) for key in stream.keys]
    times = columns.times_us(stream.time_column) if needs_time and stream.time_column else None
    keys = _keys(columns, stream.key) if stream.key else None
    return _kept(columns.refusals, codes, times, keys)


class _BatchColumns:
    """A batch's columns as numbers, each converted once for each domain."""

    def __init__(self, stream: Stream, batch: pa.RecordBatch, refusals: Refusals) -> None:
        self.stream = stream
        self.batch = batch
        self.refusals = refusals
        self._integers: dict[str, NDArray[np.int64]] = {}
        self._doubles: dict[str, NDArray[np.float64]] = {}

    def array(self, name: str) -> pa.Array:
        index = self.batch.schema.get_field_index(name)
        if index < 0:
            found = ", ".join(self.batch.schema.names) or "none"
            raise BadData(f"stream {self.stream.name}: expected one column '{name}', the input's columns are: {found}")
        return self.batch.column(index)

    def integers(self, name: str) -> NDArray[np.int64]:
        if name not in self._integers:
            self._integers[name] = read_integers(name, self.stream.schema[name], self.array(name), self.refusals)
        return self._integers[name]

    def doubles(self, name: str) -> NDArray[np.float64]:
        if name not in self._doubles:
            self._doubles[name] = read_doubles(name, self.stream.schema[name], self.array(name), self.refusals)
        return self._doubles[name]

    def times_us(self, name: str) -> NDArray[np.int64]:
        return read_times_us(name, self.array(name), self.refusals, self.stream.schema.get(name))


def _codes(columns: _BatchColumns, key: KeyColumn) -> NDArray[np.int64]:
    return _float_codes(columns, key) if key.domain is Domain.FLOAT else _integer_codes(columns, key)


def _float_codes(columns: _BatchColumns, key: KeyColumn) -> NDArray[np.int64]:
    with np.errstate(all="ignore"):
        values = evaluate(key.expression, columns.doubles, _as_double)
    if not isinstance(key.expression, Column):
        columns.refusals.add_where(np.isnan(values), "nan", f"expression {key.text}: its value is not a number")
    return fold_doubles(values)


def _as_double(value: float) -> NDArray[np.float64]:
    return np.asarray(value, dtype=np.float64)


def _integer_codes(columns: _BatchColumns, key: KeyColumn) -> NDArray[np.int64]:
    form = scaled(linear_form(key.expression), columns.stream.schema, key.scale)
    integers = {name: columns.integers(name) for name in form.terms}
    if form.constant == 0 and list(form.terms.values()) == [1]:
        return next(iter(integers.values()))
    _refuse_overflow(columns.refusals, key, form, integers)
    total = np.full(columns.batch.num_rows, form.constant, dtype=np.int64)
    with np.errstate(over="ignore"):
        for name, factor in form.terms.items():
            total += integers[name] * np.int64(factor)  # wraps; a sum within int64 comes out right all the same
    return total


def _refuse_overflow(
    refusals: Refusals, key: KeyColumn, form: ScaledForm, integers: dict[str, NDArray[np.int64]]
) -> None:
    """Refuse rows whose exact value leaves int64: doubles pass the safe rows, Python integers decide the others."""
    magnitude = np.full(refusals.rows, abs(float(form.constant)))
    for name, factor in form.terms.items():
        magnitude += np.abs(integers[name].astype(np.float64)) * abs(float(factor))
    for row in np.flatnonzero(magnitude >= _SAFE_MAGNITUDE).tolist():
        value = form.constant + sum(factor * int(integers[name][row]) for name, factor in form.terms.items())
        if not INT64_MIN <= value <= INT64_MAX:
            refusals.add(row, "overflow", f"expression {key.text}: value {value} is beyond 64-bit integers")


def _keys(columns: _BatchColumns, name: str) -> pa.Array:
    """The users' keys as int64 or text; null is refused, and so is empty text, which in CSV is the same."""
    array = columns.array(name)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    columns.refusals.add_where(_empty(array), "null", f"field {name}: no value, expected a key")
    if pa.types.is_uint64(array.type):
        beyond = array.fill_null(0).to_numpy(zero_copy_only=False) > np.uint64(INT64_MAX)
        columns.refusals.add_where(beyond, "overflow", f"field {name}: the key is beyond 64-bit integers")
        return array.cast(pa.int64(), safe=False)
    target = pa.int64() if pa.types.is_integer(array.type) else pa.string()
    try:
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadData(f"stream {columns.stream.name}: key '{name}' of type {array.type} has no text form") from error


def _empty(array: pa.Array) -> NDArray[np.bool_]:
    """Which keys (n,) are null or empty text."""
    is_text = any(of(array.type) for of in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))
    empty = pc.fill_null(pc.equal(array, ""), True) if is_text else array.is_null()
    return np.asarray(empty.to_numpy(zero_copy_only=False))


def _kept(
    refusals: Refusals, codes: list[NDArray[np.int64]], times: NDArray[np.int64] | None, keys: pa.Array | None
) -> Extracted:
    kept = refusals.kept()
    refused = [Refused(row, *refusals.by_row[row]) for row in sorted(refusals.by_row)]
    if not refused:
        return Extracted(kept, tuple(codes), times, keys, refused)
    return Extracted(
        kept,
        tuple(column[kept] for column in codes),
        None if times is None else times[kept],
        None if keys is None else keys.take(pa.array(kept)),
        refused,
    )
