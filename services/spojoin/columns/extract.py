"""Record batches as codes, event times, keys and payload; every row that can't be used is refused with a reason."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spojoin.arrays import Flags
from spojoin.columns.arithmetic import ScaledForm, evaluate, linear_form, scaled
from spojoin.columns.codes import CodeColumn, Numbers, codes_of_doubles, codes_of_values
from spojoin.columns.field import INT64_MAX, INT64_MIN, plain_texts
from spojoin.columns.inferred import check_guessed_types
from spojoin.columns.numbers import read_doubles, read_integers, read_times_us
from spojoin.columns.refusals import FAILED, MALFORMED, Refusals, Refused
from spojoin.columns.stream_columns import payload_types
from spojoin.columns.values import read_values
from spojoin.errors import BadData
from spojoin.expressions.types import value_type
from spojoin.model import (
    ASKS_NOTHING,
    HEADERS,
    TRACE,
    TRACEPARENT,
    Column,
    Computed,
    Domain,
    KeyColumn,
    Rounding,
    Stream,
    TypeName,
)

if TYPE_CHECKING:
    from spojoin.expressions.evaluator import Evaluate


_NONE: Mapping[int, str] = {}
_SAFE_MAGNITUDE = 2.0**62  # half of int64's range, so that a sum of doubles may round


@dataclass(slots=True)
class Extracted:
    """The n kept rows of a record batch.

    kept: int64 (n,), their positions in the batch, ascending
    codes: one int64 (n,) per key column, zeros if the router assigns the codes; times_us: int64 (n,) or None
    keys: Arrow int64 or string array (n,), or None if the stream names no key column
    payload: the columns that travel with the rows, or None if there are none
    members, joins: uint8 (n,) or None, as in `Rows`
    """

    kept: NDArray[np.int64]
    codes: tuple[NDArray[np.int64], ...]
    times_us: NDArray[np.int64] | None
    keys: pa.Array | None
    refused: list[Refused]
    payload: pa.RecordBatch | None = None
    members: NDArray[np.uint8] | None = None
    joins: NDArray[np.uint8] | None = None


class Extractor:
    """Reads record batches of one input, which has the number `number` in its query.

    needs_time: whether event times are read
    """

    def __init__(self, stream: Stream, needs_time: bool, number: int = 0) -> None:
        self._stream = stream
        self._needs_time = needs_time
        self._fed = stream.fed(number)
        self._program = SideProgram(stream)
        self._payload = payload_types(stream)

    def __call__(self, batch: pa.RecordBatch, malformed: Mapping[int, str] = _NONE) -> Extracted:
        """The batch's rows as codes, event times and keys.

        Reasons of refused rows: malformed, null, nan, type, unit, overflow, time, expression. BadData if the batch
        lacks a column that is used.

        malformed: by position in the batch, why a line is not a row
        """
        stream = self._stream
        refusals = Refusals(batch.num_rows)
        for row, why in malformed.items():
            refusals.add(row, MALFORMED, why)
        columns = _BatchColumns(stream, batch, refusals)
        evaluation = self._program.run(batch.num_rows, columns.values, columns.refusals)
        made = [code_column(columns, key, evaluation.values) for key in stream.keys]
        times = columns.times_us(stream.time_column) if self._needs_time and stream.time_column else None
        keys = _keys(columns, stream.key) if stream.key else None
        payload = self._payload_of(columns, evaluation)
        members, joins = self._flags(made, evaluation)
        codes = self._codes(made, joins)
        if stream.file.guessed:
            check_guessed_types(stream, batch, refusals)
        whole = Extracted(_NO_ROWS, codes, times, keys, [], payload, members, joins)
        return _kept(columns.refusals, whole)

    def _payload_of(self, columns: _BatchColumns, evaluation: SideValues) -> pa.RecordBatch | None:
        if not self._payload:
            return None
        computed = {f"({each.sql})": values for each, values in evaluation.values.items()}
        arrays = [
            computed[name].cast(value_type(kind)) if name in computed else columns.values(name)
            for name, kind in self._payload.items()
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(self._payload))

    def _flags(
        self, made: list[CodeColumn], evaluation: SideValues
    ) -> tuple[NDArray[np.uint8] | None, NDArray[np.uint8] | None]:
        """The bits of `members` and `joins`; None if every row takes part in every stream."""
        if not any(member.filter for member in self._fed) and all(each.void is None for each in made):
            return None, None
        rows = len(evaluation.passes[0])
        members, joins = np.zeros(rows, np.uint8), np.zeros(rows, np.uint8)
        for member, passes in zip(self._fed, evaluation.passes, strict=True):
            joining = passes.copy()
            for slot in member.slots:
                void = made[slot].void
                if void is not None:
                    joining &= ~void
            members |= passes.astype(np.uint8) << member.stream
            joins |= (passes if member.asks else joining).astype(np.uint8) << member.stream
            if member.asks:
                joins |= (passes & ~joining).astype(np.uint8) << (ASKS_NOTHING + member.stream)
        return members, joins

    def _codes(self, made: list[CodeColumn], joins: NDArray[np.uint8] | None) -> tuple[NDArray[np.int64], ...]:  # P16.8
        """The codes of the key columns; the codes of marks distinguish void rows from rows of the other stream."""
        codes = [each.codes for each in made]
        if joins is None:
            return tuple(codes)
        for member in self._fed:
            void = joins >> np.uint8(ASKS_NOTHING + member.stream) & 1
            for slot in (slot for slot in member.slots if self._stream.keys[slot].marks_void):
                codes[slot] = void.astype(np.int64) * (1 + member.stream)
        return tuple(codes)


#: How many extractors keep their expression engines open; a process reads few inputs again and again.
_RECENT_MAX = 16
_recent: OrderedDict[tuple[int, bool, int], Extractor] = OrderedDict()


def extract(
    stream: Stream, batch: pa.RecordBatch, needs_time: bool, number: int = 0, malformed: Mapping[int, str] = _NONE
) -> Extracted:
    """The rows of a batch, by the input's extractor; see `Extractor`."""
    key = id(stream), needs_time, number  # the extractor holds the stream, so no other stream gets its id
    found = _recent.get(key)
    if found is None:
        found = _recent[key] = Extractor(stream, needs_time, number)
        if len(_recent) > _RECENT_MAX:
            _recent.popitem(last=False)
    return found(batch, malformed)


def forget_extractors() -> None:
    """Close the expression engines of recent extractors, as before a fork."""
    _recent.clear()


_NO_ROWS = np.empty(0, np.int64)


class _BatchColumns:
    """A batch's columns as numbers and values; each column is converted once for each use."""

    def __init__(self, stream: Stream, batch: pa.RecordBatch, refusals: Refusals) -> None:
        self.stream = stream
        self.batch = batch
        self.refusals = refusals
        self._integers: dict[str, Numbers] = {}
        self._doubles: dict[str, Numbers] = {}
        self._values: dict[str, pa.Array] = {}

    def array(self, name: str) -> pa.Array:
        index = self.batch.schema.get_field_index(name)
        if index < 0:
            found = ", ".join(self.batch.schema.names) or "none"
            raise BadData(
                f"stream {self.stream.name}: expected one column '{name}', but the input has the columns {found}"
            )
        return self.batch.column(index)

    def integers(self, name: str) -> Numbers:
        """A column's integers, and which of its rows are NULL."""
        if name not in self._integers:
            nulls = np.zeros(self.batch.num_rows, np.bool_)
            kind = self.stream.schema[name]
            values = read_integers(name, kind, self.array(name), self.refusals, nulls=nulls)
            self._integers[name] = Numbers(values, nulls)
        return self._integers[name]

    def doubles(self, name: str) -> Numbers:
        """A column's doubles, and which of its rows are NULL."""
        if name not in self._doubles:
            nulls = np.zeros(self.batch.num_rows, np.bool_)
            kind = self.stream.schema[name]
            self._doubles[name] = Numbers(read_doubles(name, kind, self.array(name), self.refusals, nulls), nulls)
        return self._doubles[name]

    def values(self, name: str) -> pa.Array:
        """A column's values, in the type that expressions see."""
        if name == TRACE and name not in self.stream.schema:
            return pc.map_lookup(self.values(HEADERS), pa.scalar(TRACEPARENT), "last")
        if name not in self._values:
            self._values[name] = read_values(name, self.stream.type_of(name), self.array(name), self.refusals)
        return self._values[name]

    def times_us(self, name: str) -> NDArray[np.int64]:
        return read_times_us(name, self.array(name), self.refusals, self.stream.schema.get(name))


def code_column(columns: _BatchColumns, key: KeyColumn, computed: Mapping[Computed, pa.Array]) -> CodeColumn:
    """The codes of one key column; a mark has code 0, which means not void."""
    if key.marks_void:
        return CodeColumn(np.zeros(columns.batch.num_rows, np.int64), None)
    if isinstance(key.expression, Computed):
        return codes_of_values(key, computed[key.expression], columns.refusals)
    if _is_of_values(columns.stream, key):
        assert isinstance(key.expression, Column), "arithmetic gives numbers, and the engine evaluates all else"
        return codes_of_values(key, columns.values(key.expression.name), columns.refusals)
    if key.rounding is not None or key.domain is Domain.FLOAT:
        return _of_doubles(columns, key)
    return _of_integers(columns, key)


_VALUED = (TypeName.BOOLEAN, TypeName.STRING, TypeName.BINARY)


def _is_of_values(stream: Stream, key: KeyColumn) -> bool:
    """Whether a key column's codes are made from its values instead of a linear form, as for texts or booleans."""
    if key.domain is Domain.ASSIGNED or key.rounding is Rounding.DOUBLE:
        return True
    return isinstance(key.expression, Column) and stream.schema[key.expression.name].name in _VALUED


def _of_doubles(columns: _BatchColumns, key: KeyColumn) -> CodeColumn:
    nulls = np.zeros(columns.batch.num_rows, np.bool_)

    def doubles(name: str) -> NDArray[np.float64]:
        found = columns.doubles(name)
        np.logical_or(nulls, found.nulls, out=nulls)
        return np.asarray(found.values, np.float64)

    with np.errstate(all="ignore"):
        values = evaluate(key.expression, doubles, _as_double)
    return codes_of_doubles(key, values, nulls)


def _as_double(value: float) -> NDArray[np.float64]:
    return np.asarray(value, dtype=np.float64)


def _of_integers(columns: _BatchColumns, key: KeyColumn) -> CodeColumn:
    form = scaled(linear_form(key.expression), columns.stream.schema, key.scale)
    found = {name: columns.integers(name) for name in form.terms}
    nulls = reduce(np.logical_or, (each.nulls for each in found.values()))
    has_nulls = bool(nulls.any())  # the number in place of a NULL must not overflow
    values = {name: np.asarray(each.values, np.int64) for name, each in found.items()}
    if has_nulls:
        values = {name: np.where(nulls, 0, each) for name, each in values.items()}
    return CodeColumn(_linear(columns, key, form, values), nulls if has_nulls else None)


def _linear(
    columns: _BatchColumns, key: KeyColumn, form: ScaledForm, integers: dict[str, NDArray[np.int64]]
) -> NDArray[np.int64]:
    if form.constant == 0 and list(form.terms.values()) == [1]:
        return next(iter(integers.values()))
    _refuse_overflow(columns.refusals, key, form, integers)
    total = np.full(columns.batch.num_rows, form.constant, dtype=np.int64)
    with np.errstate(over="ignore"):
        for name, factor in form.terms.items():
            total += integers[name] * np.int64(factor)  # may wrap, but a sum within int64 is still right
    return total


def _refuse_overflow(
    refusals: Refusals, key: KeyColumn, form: ScaledForm, integers: dict[str, NDArray[np.int64]]
) -> None:
    """Refuse rows whose exact value exceeds int64; doubles show which rows are safe, Python integers check others."""
    magnitude = np.full(refusals.rows, abs(float(form.constant)))
    for name, factor in form.terms.items():
        magnitude += np.abs(integers[name].astype(np.float64)) * abs(float(factor))
    for row in np.flatnonzero(magnitude >= _SAFE_MAGNITUDE).tolist():
        value = form.constant + sum(factor * int(integers[name][row]) for name, factor in form.terms.items())
        if not INT64_MIN <= value <= INT64_MAX:
            refusals.add(row, "overflow", f"expression {key.text}: value {value} is beyond 64-bit integers")


def _keys(columns: _BatchColumns, name: str) -> pa.Array:
    """The users' keys as int64 or text; null and empty text are refused, since they are the same in CSV."""
    array = plain_texts(columns.array(name))
    columns.refusals.add_where(_empty(array), "null", f"field {name}: no value, expected a key")
    if pa.types.is_uint64(array.type):
        beyond = array.fill_null(0).to_numpy(zero_copy_only=False) > np.uint64(INT64_MAX)
        columns.refusals.add_where(beyond, "overflow", f"field {name}: the key is beyond 64-bit integers")
        return array.cast(pa.int64(), safe=False)
    target = pa.int64() if pa.types.is_integer(array.type) else pa.string()
    try:
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadData(
            f"stream {columns.stream.name}: key '{name}' of type {array.type} has no text form: expected a text"
        ) from error


def _empty(array: pa.Array) -> NDArray[np.bool_]:
    """Which keys (n,) are null or empty text."""
    is_text = any(of(array.type) for of in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))
    empty = pc.fill_null(pc.equal(array, ""), True) if is_text else array.is_null()
    return np.asarray(empty.to_numpy(zero_copy_only=False))


def _kept(refusals: Refusals, whole: Extracted) -> Extracted:
    """The rows that are not refused."""
    kept = refusals.kept()
    refused = [Refused(row, *refusals.by_row[row]) for row in sorted(refusals.by_row)]
    if not refused:
        return replace(whole, kept=kept)
    rows = pa.array(kept)
    return Extracted(
        kept,
        tuple(column[kept] for column in whole.codes),
        None if whole.times_us is None else whole.times_us[kept],
        None if whole.keys is None else whole.keys.take(rows),
        refused,
        None if whole.payload is None else whole.payload.take(rows),
        None if whole.members is None else whole.members[kept],
        None if whole.joins is None else whole.joins[kept],
    )


@dataclass(frozen=True, slots=True)
class SideValues:
    """The values of expressions, n each, and which rows pass the filter of each stream that the input feeds, (n,)."""

    values: Mapping[Computed, pa.Array]
    passes: Sequence[Flags]


class SideProgram:
    """Evaluates the filters, then all other expressions for the rows that pass a filter."""

    def __init__(self, stream: Stream) -> None:
        self._members = stream.fed(0)
        filters = [member.filter.condition for member in self._members if member.filter is not None]
        self._filters = _Stage(stream, filters)
        self._rest = _Stage(stream, [key.expression for key in stream.keys if isinstance(key.expression, Computed)])
        #: the columns that the program reads
        self.columns = list(dict.fromkeys([*self._filters.columns, *self._rest.columns]))

    def run(self, count: int, column: Callable[[str], pa.Array], refusals: Refusals) -> SideValues:
        """Evaluate all expressions for `count` rows; column: gives a column's values, in the type for expressions."""
        everyone = np.ones(count, np.bool_)
        filtered = self._filters.run(column, everyone, refusals)
        passes = [
            everyone if member.filter is None else _is_true(filtered[member.filter.condition])
            for member in self._members
        ]
        rows = np.logical_or.reduce(passes)
        return SideValues(self._rest.run(column, rows, refusals), passes)


class _Stage:
    """Expressions that are evaluated together."""

    def __init__(self, stream: Stream, expressions: Sequence[Computed]) -> None:
        self._expressions = list(dict.fromkeys(expressions))
        self.columns = list(dict.fromkeys(name for each in self._expressions for name in each.columns))
        self._types = {name: stream.type_of(name) for name in self.columns}
        self._evaluator: Evaluate | None = None

    def run(self, column: Callable[[str], pa.Array], rows: Flags, refusals: Refusals) -> dict[Computed, pa.Array]:
        """The values for the masked rows, NULL elsewhere; rows without a value are refused."""
        if not self._expressions:
            return {}
        evaluate = self._opened()
        table = pa.table({name: column(name) for name in self.columns} or {"nothing": pa.nulls(len(rows))})
        kept = np.flatnonzero(rows)
        picked = table if len(kept) == len(rows) else table.take(pa.array(kept))
        found = evaluate(picked)
        for failure in found.failures:
            refusals.add(int(kept[failure.row]), FAILED, f"an expression has no value: {failure.why}")
        values = found.values if len(kept) == len(rows) else [_spread(v, kept, len(rows)) for v in found.values]
        return dict(zip(self._expressions, values, strict=True))

    def _opened(self) -> Evaluate:
        if self._evaluator is None:
            from spojoin.expressions.evaluator import evaluator  # noqa: PLC0415  (few queries need the engine)

            self._evaluator = evaluator([each.sql for each in self._expressions], self._types)
        return self._evaluator


def _is_true(values: pa.Array) -> Flags:
    if pa.types.is_null(values.type):  # there are no rows, or none has a value
        return np.zeros(len(values), np.bool_)
    return np.asarray(values.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False), np.bool_)


def _spread(values: pa.Array, kept: np.ndarray, count: int) -> pa.Array:
    from spojoin.expressions.engine import spread  # noqa: PLC0415  (few queries need the engine)

    return spread(values, kept, count)
