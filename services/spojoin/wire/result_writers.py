"""Writers of results as messages: a class for each form of `result_forms`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import pyarrow as pa

from spojoin.wire.records import Result
from spojoin.wire.registered import RegisteredSchema, SchemaKind, framed
from spojoin.wire.result_forms import AVRO, FRAMES, JSON, JSON_SCHEMA, ResultForm
from spojoin.wire.results import OutputMessage, result_messages_json, result_messages_rows, result_to_message
from spojoin.wire.row_values import RowWriter, json_objects, message_keys, row_writer

#: (subject, schema) -> the id under which a registry holds the schema
Register = Callable[[str, RegisteredSchema], int]


class ResultWriter(ABC):
    """Writes results in one form."""

    form: ClassVar[ResultForm]

    @abstractmethod
    def messages(self, result: Result, matches_before: int, key: str | None) -> list[OutputMessage]:
        """The messages of a result, at least one.

        matches_before: how many matches earlier results have; key: the column whose value is the key of a row's message

        Raises Retryable, and ConfigurationError if the rows can't have this form.
        """


class FramesWriter(ResultWriter):
    """A message for each result."""

    form = FRAMES

    def messages(self, result: Result, matches_before: int, key: str | None) -> list[OutputMessage]:
        return [result_to_message(result, matches_before)]


class RowsWriter(ResultWriter):
    """A message for each row."""

    @abstractmethod
    def values(self, rows: pa.RecordBatch) -> Sequence[bytes]:
        """The values of the messages. Raises Retryable, and ConfigurationError if the rows can't have this form."""

    def messages(self, result: Result, matches_before: int, key: str | None) -> list[OutputMessage]:
        rows = result.rows
        values = self.values(rows) if rows.num_rows else ()
        keys = None if key is None else message_keys(rows.schema.field(key), rows.column(key))
        return result_messages_rows(result, values, self.form.content_type, matches_before, keys)


class JsonWriter(RowsWriter):
    """A message for each row of a select list, or for each probe with other outputs."""

    form = JSON

    def values(self, rows: pa.RecordBatch) -> Sequence[bytes]:
        return json_objects(rows)

    def messages(self, result: Result, matches_before: int, key: str | None) -> list[OutputMessage]:
        if result.probes is None:
            return result_messages_json(result, matches_before)
        return super().messages(result, matches_before, key)


class RegisteredWriter(RowsWriter):
    """A message for each row in Confluent's wire format.

    The schema's subject is "<topic>-value", as in Confluent's serialisers. It is registered before the first rows.
    """

    kind: ClassVar[SchemaKind]

    def __init__(self, topic: str, register: Register) -> None:
        self._topic = topic
        self._register = register
        self._columns: pa.Schema | None = None
        self._writer: RowWriter | None = None
        self._id = 0

    def values(self, rows: pa.RecordBatch) -> Sequence[bytes]:
        """The values of the messages. Raises what `register` raises."""
        if self._writer is None or self._columns != rows.schema:
            writer = row_writer(self.kind, self._topic, rows.schema)
            self._id = self._register(f"{self._topic}-value", writer.schema)
            self._writer, self._columns = writer, rows.schema
        return [framed(self._id, data) for data in self._writer.values(rows)]


class AvroWriter(RegisteredWriter):
    """Rows in Avro."""

    form = AVRO
    kind = SchemaKind.AVRO


class JsonSchemaWriter(RegisteredWriter):
    """Rows in JSON."""

    form = JSON_SCHEMA
    kind = SchemaKind.JSON


_PLAIN: dict[ResultForm, type[FramesWriter | JsonWriter]] = {
    writer.form: writer for writer in (FramesWriter, JsonWriter)
}
_REGISTERED: dict[ResultForm, type[RegisteredWriter]] = {
    writer.form: writer for writer in (AvroWriter, JsonSchemaWriter)
}


def result_writer(form: ResultForm, topic: str, register: Register | None) -> ResultWriter:
    """The writer of results of this form into a topic; register: registers a schema, if the form needs a registry."""
    if not form.needs_registry:
        return _PLAIN[form]()
    if register is None:
        raise ValueError(f"results in the form {form.name} need a schema registry")
    return _REGISTERED[form](topic, register)
