"""JSON objects as rows.

Arrow's parser reads well-formed lines, each column with a type that represents every value exactly. Lines that it
doesn't accept as whole rows are read again from the literals, as text, and that reading decides. This costs ten times
as much, so if Arrow refuses many lines, the lines that probably caused the refusal are searched first.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from types import NoneType
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
from numpy.typing import NDArray

from spojoin.columns.extract import Extracted
from spojoin.columns.stream_columns import JSON_FRACTIONS
from spojoin.columns.texts import JsonNumber
from spojoin.model import FLOATING, INTEGERS, Stream, TypeName
from spojoin.reading.connect_values import (
    DECIMAL_ADVICE,
    NUMBER_OR_BYTES,
    DeclaredType,
    are_bytes,
    declared_fields,
    value_as_declared,
)
from spojoin.reading.lines import LineReader, Parsed, one_chunk
from spojoin.reading.readout import (
    OPERATION,
    PAYLOAD,
    BadLine,
    Ids,
    Readout,
    columns_needed,
    no_envelope,
    no_row,
    not_a_row,
)

_TEXTS = {TypeName.STRING, TypeName.UUID, TypeName.BINARY}
_READ_AS = {
    **dict.fromkeys(INTEGERS, pa.int64()),
    **dict.fromkeys(FLOATING, pa.float64()),
    **dict.fromkeys(_TEXTS, pa.string()),
}
_OPEN, _CLOSE = b"{}"
#: The field with the schema of a Kafka Connect message, next to its payload.
_SCHEMA = "schema"
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class JsonLines(LineReader):
    """Reads messages with one object on any number of lines, or one object on each line."""

    few = 64

    def __init__(self, stream: Stream, needs_time: bool, number: int = 0) -> None:
        super().__init__(stream, needs_time, number)
        self._needed = columns_needed(stream, needs_time)
        self._envelope = stream.envelope

    @staticmethod
    def split(value: bytes) -> list[bytes]:
        """One object in any layout, or one object for each line."""
        stripped = value.strip()
        if b"\n" not in stripped:
            return [stripped] if stripped else []
        lines = [line for raw in stripped.split(b"\n") if (line := raw.strip())]
        return lines if _are_objects(lines) else [stripped]

    def split_all(self, values: Sequence[bytes]) -> tuple[Sequence[bytes], Ids]:
        """The result of `split` for all messages; one from brace to brace without a line end is one line."""
        if all(values) and _are_objects(values) and b"\n" not in b"".join(values):
            return values, np.ones(len(values), np.int64)
        return super().split_all(values)

    def parse(self, lines: Sequence[bytes]) -> Parsed | None:
        """Arrow's reading, if it certainly found one row for each line.

        The next line can't continue a line from brace to brace, as no JSON value contains `}` followed by `{`. So each
        line has at least one row, and as many rows as lines mean one each. The other reading decides about infinity:
        Arrow reads a finite literal just above the largest double as infinity.
        """
        if not _are_objects(lines) or not self._key_keeps_its_text():
            return None
        text = b"\n".join(lines)
        try:
            text.decode()
            table = pa_json.read_json(io.BytesIO(text), *self._options(lines[0], len(text)))
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None
        if table.num_rows != len(lines):
            return None
        parsed = self._rows_of(table, lines)
        return None if parsed is None or _has_infinity(parsed.batch) else parsed

    def _rows_of(self, table: pa.Table, lines: Sequence[bytes]) -> Parsed | None:
        """The messages' rows; None if a message that seems to have none has one."""
        if self._envelope is None:
            return Parsed(table.combine_chunks().to_batches()[0])
        holder = _holder(table, self._envelope)
        if holder is None:
            return None
        faults = [self._fault(row, lines[row]) for row in np.flatnonzero(~_is_valid(holder)).tolist()]
        batch = pa.RecordBatch.from_struct_array(holder.drop_null())
        if any(map(_may_be_bytes, self._decimals_of(batch))):
            return None
        return None if None in faults else Parsed(batch, [fault for fault in faults if fault is not None])

    def _decimals_of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns of decimals that came as text."""
        names = [name for name in batch.schema.names if self._is_decimal(name)]
        return [batch.column(name) for name in names if pa.types.is_string(batch.column(name).type)]

    def _is_decimal(self, name: str) -> bool:
        declared = self.stream.schema.get(name)
        return declared is not None and declared.name is TypeName.DECIMAL

    def _fault(self, row: int, line: bytes) -> BadLine | None:
        try:
            self._literals(line)
        except _BadLine as error:
            return BadLine(row, error.reason, error.detail)
        return None

    def doubtful(self, lines: Sequence[bytes]) -> list[int]:
        """The lines that are no objects; if there are none, the lines with a value of an unexpected type."""
        messages = [_object(line) for line in lines]
        malformed = [at for at, message in enumerate(messages) if message is None]
        if malformed or self._envelope is not None:
            return malformed
        rows = [message for message in messages if message is not None]
        found: set[int] = set()
        for name, type_ in self._fields(rows[0]):
            taken = _taken_as(type_)
            found.update([at for at, row in enumerate(rows) if type(row.get(name)) not in taken])
        return sorted(found)

    def read_one_by_one(self, ids: Ids, lines: Sequence[bytes], readout: Readout) -> None:
        """Read lines from the literals, as text."""
        good: list[int] = []
        rows: list[dict[str, str | None]] = []
        whole_keys = True
        for id_, line in zip(ids.tolist(), lines, strict=True):
            try:
                values = self._literals(line)
            except _BadLine as error:
                readout.faults.append(BadLine(id_, error.reason, error.detail))
                continue
            whole_keys &= self._is_whole_key(values)
            good.append(id_)
            rows.append({name: _text(value) for name, value in values.items()})
        if rows:
            taken = np.array(good, np.int64)
            readout.keep_rows_and_faults(taken, self.extract(taken, self._batch(rows, whole_keys)))

    def judge_refused(self, ids: Ids, lines: Sequence[bytes], extracted: Extracted, readout: Readout) -> None:
        """Read refused rows again from the literals, which alone decide."""
        refused = [r.row for r in extracted.refused]
        if refused:
            self.read_one_by_one(ids[refused], [lines[row] for row in refused], readout)

    def _options(self, first: bytes, size: int) -> tuple[pa_json.ReadOptions, pa_json.ParseOptions]:
        schema = self._schema(first)
        return (
            pa_json.ReadOptions(use_threads=False, block_size=size + 1),
            pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )

    def _schema(self, first: bytes) -> pa.Schema:
        """Types that hold every value exactly; if JSON has two forms for a type, that of the first row."""
        try:
            message = orjson.loads(first)
        except orjson.JSONDecodeError:
            message = {}
        if self._envelope is None:
            return pa.schema(self._fields(message))
        payload = message.get(PAYLOAD)
        if message.get(self._envelope) is None and isinstance(payload, dict):
            holder = self._envelope, pa.struct(self._fields(payload.get(self._envelope)))
            return pa.schema([(PAYLOAD, pa.struct([holder])), holder])
        return pa.schema([(self._envelope, pa.struct(self._fields(message.get(self._envelope))))])

    def _fields(self, first: object) -> list[tuple[str, pa.DataType]]:
        row = first if isinstance(first, dict) else {}
        return [(name, self._type(name, row.get(name))) for name in self._needed]

    def _type(self, name: str, first: object) -> pa.DataType:
        declared = self.stream.schema.get(name)
        if declared is not None and declared.name in _READ_AS:
            return _READ_AS[declared.name]
        if self._envelope is not None and self._is_decimal(name) and not isinstance(first, int | float):
            return pa.string()  # bytes may look like numbers there
        if declared is not None and declared.name is TypeName.DECIMAL:
            return pa.decimal128(38, declared.scale)
        if declared is not None and declared.name is TypeName.BOOLEAN and isinstance(first, bool):
            return pa.bool_()
        if isinstance(first, float) and name != self.stream.key:
            return JSON_FRACTIONS
        return pa.int64() if isinstance(first, int) else pa.string()

    def _key_keeps_its_text(self) -> bool:
        declared = self.stream.schema.get(self.stream.key or "")
        return declared is None or declared.name not in {*FLOATING, TypeName.DECIMAL}

    def _literals(self, line: bytes) -> dict[str, Any]:
        """The needed fields of a line as they are written, null if missing; _BadLine if the line is no row."""
        message = _pairs(line)
        row = _row(message, self._envelope)
        told = self._told(message)
        found: dict[str, Any] = {}
        for name, value in row:
            if name in self._needed:
                if name in found:
                    raise _BadLine("malformed", f"field {name} stands twice in one object")
                found[name] = self._value(name, value, told.get(name))
        for name in self._needed:
            if isinstance(found.setdefault(name, None), _Pairs | list):
                raise _BadLine("type", f"field {name}: expected one value, not an object or array")
        return found

    def _told(self, message: _Pairs) -> dict[str, DeclaredType]:
        """The types of the row's fields in the message's own schema."""
        schema = _only(message, _SCHEMA)
        if self._envelope is None or not isinstance(schema, _Pairs):
            return {}
        return declared_fields(_plain(schema), self._envelope)

    def _value(self, name: str, value: Any, told: DeclaredType | None) -> Any:  # noqa: ANN401  (JSON)
        """A value as its message's schema declares it; _BadLine if it is ambiguous."""
        declared = self.stream.schema.get(name)
        if declared is None or self._envelope is None or not isinstance(value, str):
            return value
        is_text = not isinstance(value, JsonNumber)
        found = value_as_declared(value, told, declared, is_text=is_text)
        if found is None or (is_text and self._is_decimal(name) and found == value and are_bytes(value)):
            raise _BadLine("type", f"field {name}: value {value!r} may be the bytes of a decimal: {DECIMAL_ADVICE}")
        return value if found == value else found

    def _is_whole_key(self, values: dict[str, Any]) -> bool:
        key = values.get(self.stream.key or "")
        return key is None or (isinstance(key, _Whole) and len(key) < 21 and _INT64_MIN <= int(key) <= _INT64_MAX)

    def _batch(self, rows: list[dict[str, str | None]], whole_keys: bool) -> pa.RecordBatch:
        columns = {name: pa.array([row[name] for row in rows], pa.string()) for name in self._needed}
        if self.stream.key is not None and whole_keys and self._key_keeps_its_text():
            columns[self.stream.key] = columns[self.stream.key].cast(pa.int64())
        return pa.RecordBatch.from_pydict(columns)


def _may_be_bytes(texts: pa.Array) -> bool:
    """Whether any text of a decimal may be bytes: without a point, and in whole groups of four characters."""
    without_point = pc.invert(pc.match_substring(texts, "."))
    return bool(pc.any(pc.and_(without_point, pc.match_substring_regex(texts, NUMBER_OR_BYTES)), min_count=0).as_py())


def _plain(value: Any) -> Any:  # noqa: ANN401  (JSON)
    """JSON as dicts and lists."""
    if isinstance(value, _Pairs):
        return {name: _plain(each) for name, each in value}
    return [_plain(each) for each in value] if isinstance(value, list) else value


class _BadLine(Exception):  # a signal within this module
    """A line that is no row; it becomes a dead letter with this reason."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class _Whole(JsonNumber):
    """A number's literal without fraction or exponent."""

    __slots__ = ()


class _Pairs(list[tuple[str, Any]]):
    """An object's fields, repeated ones included."""


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _taken_as(type_: pa.DataType) -> set[type]:
    """The types of JSON values that Arrow's parser accepts for a type."""
    if pa.types.is_decimal(type_):
        return {int, float, str, NoneType}
    if pa.types.is_floating(type_):
        return {int, float, NoneType}
    if pa.types.is_string(type_):
        return {str, NoneType}
    return {bool, NoneType} if pa.types.is_boolean(type_) else {int, NoneType}


def _are_objects(lines: Sequence[bytes]) -> bool:
    return all(line[0] == _OPEN and line[-1] == _CLOSE for line in lines)


def _has_infinity(batch: pa.RecordBatch) -> bool:
    columns = (column for column in batch.columns if pa.types.is_floating(column.type))
    return any(pc.any(pc.is_inf(column)).as_py() for column in columns)


def _pairs(line: bytes) -> _Pairs:
    try:
        value = json.loads(
            line.decode(), parse_int=_Whole, parse_float=JsonNumber, parse_constant=JsonNumber, object_pairs_hook=_Pairs
        )
    except (ValueError, RecursionError) as error:
        raise _BadLine("malformed", f"no JSON object: {error or 'nested too deep'}") from error
    if not isinstance(value, _Pairs):
        raise _BadLine("malformed", f"expected a JSON object, found {type(value).__name__}")
    _check_unicode(value)
    return value


def _check_unicode(pairs: _Pairs) -> None:
    """Refuse escapes of half a surrogate pair, which is no character."""
    for name, value in pairs:
        try:
            name.encode()
            if isinstance(value, str):
                value.encode()
        except UnicodeEncodeError as error:
            raise _BadLine("malformed", f"an escape is no Unicode character: {error.reason}") from error


def _names(pairs: _Pairs) -> str:
    return ", ".join(name for name, _ in pairs) or "none"


def _row(message: _Pairs, envelope: str | None) -> _Pairs:
    """The row that a message is or contains; without an envelope's field, one within its payload counts."""
    if envelope is None:
        return message
    found = _only(message, envelope)
    payload = _only(message, PAYLOAD)
    if found is None and isinstance(payload, _Pairs):
        message, found = payload, _only(payload, envelope)
    if isinstance(found, _Pairs):
        return found
    if found is not None:
        raise _BadLine(*not_a_row(envelope, "an array" if isinstance(found, list) else repr(found)))
    if envelope in (name for name, _ in message):
        raise _BadLine(*no_row(envelope, _only(message, OPERATION)))
    raise _BadLine(*no_envelope(envelope, _names(message)))


def _only(message: _Pairs, wanted: str) -> object:
    """A field's value, None if it is missing; _BadLine if it occurs twice."""
    values = [value for name, value in message if name == wanted]
    if len(values) > 1:
        raise _BadLine("malformed", f"field {wanted} stands twice in one object")
    return values[0] if values else None


def _holder(table: pa.Table, envelope: str) -> pa.StructArray | None:
    """The messages' rows as structs; None if some are within a payload and others aren't."""
    direct = one_chunk(table.column(envelope))
    if PAYLOAD not in table.column_names:
        return direct
    return None if direct.null_count < len(direct) else pc.struct_field(one_chunk(table.column(PAYLOAD)), [envelope])


def _is_valid(array: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def _text(value: str | bool | None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return "true" if value else "false"
