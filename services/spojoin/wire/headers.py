"""Each record's form: its protobuf header, its columns in order, and its checks, as the types of its fields say.

All is derived at import: a record then costs a loop over its fields.
"""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Callable, Iterable
from functools import partial
from types import NoneType
from typing import Annotated, NamedTuple, get_args, get_origin, get_type_hints

import pyarrow as pa

from spojoin.arrays import DTYPES, I64
from spojoin.wire import fields
from spojoin.wire._generated import spojoin_pb2 as pb
from spojoin.wire.columns import ColumnReader, ColumnWriter
from spojoin.wire.fields import Coding, Header, Value, Wire, any_length
from spojoin.wire.invariants import RULES, Rule, expect_ascending, expect_below, expect_length, expect_rising, fail
from spojoin.wire.records import Record

#: Raises WireError unless a field fits its record: where it is, its value, the record, and the record's size.
Check = Callable[[str, Value, Value, int], object]


class Form:
    """How a type of record is written, read and checked: `field` is its header's field in the envelope."""

    def __init__(self, kind: Value, header: Header, field: str = "", number: str = "") -> None:
        """`header` describes the header; `number` is the field that the surrounding record's header holds."""
        self.field = field
        self.kind = kind
        self.fields = _fields(kind, header)
        self._rule = RULES.get(kind, Rule())
        sent = [f for f in self.fields if f.name != number]
        self._scalars = [f.name for f in sent if f.coding is None]
        self._writes = [(f.name, f.coding.write) for f in sent if f.coding is not None]
        self._reads = [(f.name, f.coding.read) for f in sent if f.coding is not None]
        columns = [f for f in self.fields if _is_column(f.type)]
        self._sized = [(f.name, f.is_optional) for f in columns if f.wire.lengths is None]
        self._checks = [(f.name, check) for f in self.fields for check in _checks(f)]

    def write(self, record: Value, header: Header, columns: ColumnWriter) -> None:
        """Fill the header, and append the columns."""
        for name in self._scalars:
            setattr(header, name, getattr(record, name))
        for name, write in self._writes:
            write(getattr(record, name), header, columns)

    def read(self, header: Header, columns: ColumnReader, **known: int) -> Value:
        """The inverse of `write`; `known` are fields that the header doesn't hold."""
        values: dict[str, Value] = known
        for name in self._scalars:
            values[name] = getattr(header, name)
        for name, read in self._reads:
            values[name] = read(header, columns)
        return self.kind(**values)

    def check(self, record: Value, where: str = "", size: int = 0) -> None:
        """Raise WireError unless each field fits the record, and all fit each other; `size` of the surrounding one.

        Writers and readers call it, so a record that no reader could use never enters a topic.
        """
        rule = self._rule
        if rule.where is not None:
            where += rule.where(record)
        if rule.size is not None:
            size = rule.size(record)
        for name, is_optional in self._sized:
            value = getattr(record, name)
            if value is not None and len(value) != size:
                expect_length(where, name, value, size)
            if value is None and not is_optional:
                fail(f"{where}: {name} are absent, expected {size}")
        for name, check_field in self._checks:
            value = getattr(record, name)
            if value is not None:
                check_field(where, value, record, size)
        if rule.check is not None:
            rule.check(where, record)


class RecordField(NamedTuple):
    """A field of a record.

    type: without `Wire` and None; coding: None if it stands in the header as it is; item: of the records in it
    """

    name: str
    type: Value
    is_optional: bool
    wire: Wire
    coding: Coding | None
    item: Form | None = None


def _origin(kind: Value) -> Value:
    return get_origin(kind) or kind


def _fields(kind: type, header: Header) -> list[RecordField]:
    hints = get_type_hints(kind, include_extras=True)
    sent = [(f.name, *_split(hints[f.name])) for f in dataclasses.fields(kind)]
    return [_field(*each, header) for each in sorted(sent, key=lambda s: s[3].is_late) if not each[3].is_local]


def _split(hint: Value) -> tuple[Value, bool, Wire]:
    """A field's type, whether it is optional, and what its type doesn't say."""
    hint, wire = get_args(hint) if _origin(hint) is Annotated else (hint, Wire())
    is_optional = NoneType in get_args(hint)
    return get_args(hint)[0] if is_optional else hint, is_optional, wire


def _field(name: str, kind: Value, is_optional: bool, wire: Wire, header: Header) -> RecordField:
    item = get_args(kind)[0] if _origin(kind) is tuple else None
    if dataclasses.is_dataclass(item):
        return RecordField(name, kind, is_optional, wire, *_nested(name, item, wire, header))
    coding = wire.coding or _coding(name, kind, wire, header)
    if wire.flag and coding is not None:
        coding = fields.flagged(coding, wire.flag.format(name), wire.absent)
    elif is_optional and kind in DTYPES:
        coding = fields.optional_array(DTYPES[kind])
    return RecordField(name, kind, is_optional, wire, coding)


def _coding(name: str, kind: Value, wire: Wire, header: Header) -> Coding | None:
    arguments = get_args(kind)
    if kind in DTYPES:
        return fields.array(DTYPES[kind])
    match _origin(kind):
        case pa.Array:
            return fields.KEYS
        case pa.RecordBatch:
            return fields.ROWS
        case builtins.tuple if arguments[0] in (int, str):
            return fields.listed(name)
        case builtins.tuple if arguments[-1] is ...:
            return fields.arrays(DTYPES[arguments[0]], *wire.names)
        case builtins.tuple:
            return fields.pair(DTYPES[arguments[0]])
        case builtins.dict if arguments[0] is str:
            return fields.mapped(name)
        case builtins.dict:
            entry = header.fields_by_name[name].message_type
            if dataclasses.is_dataclass(arguments[1]):
                form = Form(arguments[1], entry)
                inner: Coding | None = Coding(form.write, form.read)
            else:
                inner = _coding(name, arguments[1], wire, entry)
            return inner and fields.by_pair(name, inner, entry)
    return None if wire.absent is None else fields.scalar(name, wire.absent)


def _nested(name: str, kind: Value, wire: Wire, header: Header) -> tuple[Coding, Form]:
    """Records, each with a message or a number in the header; or the header holds only how many there are."""
    names = wire.names or (name,)
    at = header.fields_by_name[names[0]]
    at_name, is_message, is_repeated = at.name, at.message_type is not None, _is_repeated(at)
    number = dataclasses.fields(kind)[0].name if is_repeated and not is_message else ""
    form = Form(kind, at.message_type or header, number=number)

    def head(header: Header, position: int, item: Value) -> Header:
        if is_message:
            return getattr(header, at_name).add() if is_repeated else getattr(header, names[position])
        if number:
            getattr(header, at_name).append(getattr(item, number))
        else:
            setattr(header, at_name, position + 1)
        return header

    def write(value: Value, header: Header, columns: ColumnWriter) -> None:
        if not value:
            return
        before = columns.count
        for position, item in enumerate(value):
            form.write(item, head(header, position, item), columns)
        if wire.columns:
            setattr(header, wire.columns, columns.count - before)

    def read(header: Header, columns: ColumnReader) -> Value:
        if number:
            return tuple(form.read(None, columns, **{number: n}) for n in getattr(header, at_name))
        if not is_message:
            return tuple(form.read((header, n), columns) for n in range(getattr(header, at_name)))
        if is_repeated:
            return tuple(form.read(head, columns) for head in getattr(header, at_name))
        return tuple(form.read(getattr(header, each), columns) for each in names if header.HasField(each))

    return Coding(write, read), form


def _is_repeated(field: Value) -> bool:
    """Whether a field of a header is a list, as new and old versions of protobuf report it."""
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _is_column(kind: Value) -> bool:
    return kind in DTYPES or kind in (pa.Array, pa.RecordBatch)


def _checks(field: RecordField) -> Iterable[Check]:
    """What is checked of a field besides that it is as long as the record."""
    name, wire, item = field.name, field.wire, field.item
    if (lengths := wire.lengths) is not None and lengths is not any_length:
        yield lambda where, value, record, size: expect_length(where, name, value, *lengths(record, size))
    if wire.rises:
        yield lambda where, value, record, size: expect_rising(where, name, value)
    if wire.ascends:
        yield lambda where, value, record, size: expect_ascending(where, name, value)
    if wire.is_rank:
        yield lambda where, value, record, size: expect_below(where, name, value, size)
    if item is not None:
        yield partial(_check_each, item.check)
    if field.type == tuple[I64, ...]:
        yield partial(_check_slots, name)


def _check_each(check_item: Callable[[Value, str, int], None], where: str, value: Value, _: Value, size: int) -> None:
    for item in value:
        check_item(item, where, size)


def _check_slots(name: str, where: str, value: Value, _: Value, size: int) -> None:
    for slot, values in enumerate(value):
        expect_length(where, f"{name} of slot {slot}", values, size)


FORMS: dict[type[Record], Form] = {
    kind: Form(kind, field.message_type, field.name)
    for kind in get_args(Record)
    for field in pb.Envelope.DESCRIPTOR.oneofs_by_name["record"].fields
    if field.message_type is not None and field.message_type.name == kind.__name__
}
