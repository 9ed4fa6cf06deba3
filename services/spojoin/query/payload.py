"""The columns that travel with a stream's rows: what results, residual conditions and equalities of texts need."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from spojoin.expressions.types import value_type
from spojoin.model import Column, ColumnType, Computed, Domain, KeyColumn, Stream


@dataclass(frozen=True, slots=True)
class AssignedSlot:
    """A key column whose codes are numbers of values: its slot, and the payload column that holds the values."""

    slot: int
    column: str


def assigned_slots(stream: Stream) -> tuple[AssignedSlot, ...]:
    """The key columns of a stream whose codes the router assigns."""
    return tuple(AssignedSlot(slot, value_name(key)) for slot, key in enumerate(stream.keys) if is_assigned(key))


def is_assigned(key: KeyColumn) -> bool:
    """Whether the router gives a key column's values their codes."""
    return key.domain is Domain.ASSIGNED


def value_name(key: KeyColumn) -> str:
    """The payload column with the values of an assigned key column: a column's own name, or the expression."""
    return key.expression.name if isinstance(key.expression, Column) else f"({_computed(key).sql})"


def carried(stream: Stream) -> dict[str, ColumnType]:
    """All payload columns of a stream and their types, in order."""
    found = {name: stream.type_of(name) for name in stream.payload}
    for key in filter(is_assigned, stream.keys):
        if isinstance(key.expression, Column):
            found[key.expression.name] = stream.schema[key.expression.name]
        else:
            found[value_name(key)] = _computed(key).type
    return found


def payload_schema(stream: Stream) -> pa.Schema | None:
    """The Arrow schema of a stream's payload; None where nothing travels with its rows."""
    columns = carried(stream)
    return pa.schema([(name, value_type(kind)) for name, kind in columns.items()]) if columns else None


def no_payload(stream: Stream) -> pa.RecordBatch | None:
    """The payload of no rows; None where nothing travels with a stream's rows."""
    schema = payload_schema(stream)
    return None if schema is None else pa.RecordBatch.from_pylist([], schema=schema)


def _computed(key: KeyColumn) -> Computed:
    assert isinstance(key.expression, Computed), "only texts and bytes are assigned, which no arithmetic gives"
    return key.expression
