"""The columns of a stream that a query reads, and those that travel with rows for results and conditions on pairs."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from spojoin.expressions.types import value_type
from spojoin.model import (
    HEADERS,
    HEADERS_TYPE,
    TRACE,
    Arithmetic,
    Column,
    ColumnType,
    Computed,
    Domain,
    Expression,
    KeyColumn,
    Stream,
    TypeName,
)


@dataclass(frozen=True, slots=True)
class AssignedSlot:
    """A key column whose values get numbers as codes: its slot, and the payload column that holds the values."""

    slot: int
    column: str


def assigned_slots(stream: Stream) -> tuple[AssignedSlot, ...]:
    """The key columns of a stream whose codes the router assigns."""
    return tuple(AssignedSlot(slot, payload_name(key)) for slot, key in enumerate(stream.keys) if is_assigned(key))


def is_assigned(key: KeyColumn) -> bool:
    """Whether the router gives a key column's values their codes."""
    return key.domain is Domain.ASSIGNED


def payload_name(key: KeyColumn) -> str:
    """The payload column with the values of an assigned key column: a column's own name, or the expression."""
    return key.expression.name if isinstance(key.expression, Column) else f"({_computed(key).sql})"


def payload_types(stream: Stream) -> dict[str, ColumnType]:
    """All payload columns of a stream and their types, in order."""
    found = {name: stream.type_of(name) for name in stream.payload}
    for key in filter(is_assigned, stream.keys):
        if isinstance(key.expression, Column):
            found[key.expression.name] = stream.schema[key.expression.name]
        else:
            found[payload_name(key)] = _computed(key).type
    return found


def payload_schema(stream: Stream) -> pa.Schema | None:
    """The Arrow schema of a stream's payload; None if nothing travels with its rows."""
    columns = payload_types(stream)
    return pa.schema([(name, value_type(kind)) for name, kind in columns.items()]) if columns else None


def no_payload(stream: Stream) -> pa.RecordBatch | None:
    """The payload of no rows; None if nothing travels with a stream's rows."""
    schema = payload_schema(stream)
    return None if schema is None else pa.RecordBatch.from_pylist([], schema=schema)


def _computed(key: KeyColumn) -> Computed:
    assert isinstance(key.expression, Computed), "only texts and bytes are assigned, which no arithmetic gives"
    return key.expression


#: The type of times in JSON that are numbers with a fraction; it is exact to the nanosecond.
JSON_FRACTIONS = pa.decimal128(38, 9)


def arrow_type(kind: ColumnType) -> pa.DataType:
    """The Arrow type that holds a declared type's values exactly: as expressions see them, but times have a zone."""
    return pa.timestamp("us", "UTC") if kind.name is TypeName.TIMESTAMP else value_type(kind)


def arrow_schema(stream: Stream, needs_time: bool = True) -> pa.Schema:
    """The columns of a stream that a query reads: those of its expressions and results, the event time, the key.

    A time or key column without a declared type has Arrow's null type, which stands for "as it is found": `extract`
    takes ISO text, timestamps or integer milliseconds for times, and anything with a text form for keys. Text is
    always accepted: `extract` reads every type from strings as well, and refuses only the bad rows.
    needs_time: whether the event time is read at all (`Query.needs_time`)
    """
    expressions = [key.expression for key in stream.keys]
    expressions += [member.filter.condition for member in stream.fed(0) if member.filter is not None]
    payload = (HEADERS if name == TRACE and name not in stream.schema else name for name in stream.payload)
    names = dict.fromkeys([*(name for each in expressions for name in columns_of(each)), *payload])
    extra = [name for name in (stream.time_column if needs_time else None, stream.key) if name is not None]
    return pa.schema([(name, _found_as(stream, name)) for name in dict.fromkeys([*names, *extra])])


def columns_of(expression: Expression) -> list[str]:
    """The columns that an expression names, in the order in which they are written."""
    if isinstance(expression, Column):
        return [expression.name]
    if isinstance(expression, Computed):
        return list(expression.columns)
    if isinstance(expression, Arithmetic):
        return columns_of(expression.left) + columns_of(expression.right)
    return []


def _found_as(stream: Stream, name: str) -> pa.DataType:
    if name in stream.schema:
        return arrow_type(stream.schema[name])
    return value_type(HEADERS_TYPE) if name == HEADERS and name not in (stream.time, stream.key) else pa.null()
