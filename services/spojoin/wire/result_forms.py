"""The forms of results that settings, the command line, messages and pages offer.

To add a form, add an entry here, and a class in `result_writers` that writes it. This module imports nothing heavy, so
that the command line starts fast.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResultForm:
    """How results become messages.

    name: its name in the setting `results_format`; content_type: the content type header of its messages
    value: what a message's value is, in the words of the wire format's page
    has_single_rows: whether a message can be one row, with a key and a trace
    needs_registry: whether its schema is registered
    """

    name: str
    content_type: bytes
    value: str
    has_single_rows: bool = True
    needs_registry: bool = False


FRAMES = ResultForm(
    "frames",
    b"application/vnd.apache.arrow.stream",
    "an Arrow IPC stream with the rows of a frame, or of a part of it",
    has_single_rows=False,
)
JSON = ResultForm(
    "json",
    b"application/json",
    "with a select list a row as a JSON object; otherwise an object for each probe, with a list of its `pairs`",
)
# The content types differ from those of bare Avro and JSON, since a schema id precedes the row.
AVRO = ResultForm(
    "avro",
    b"application/vnd.schemaregistry.avro",
    "a row in Avro, in Confluent's wire format",
    needs_registry=True,
)
JSON_SCHEMA = ResultForm(
    "json-schema",
    b"application/vnd.schemaregistry.json",
    "a row in JSON, in Confluent's wire format",
    needs_registry=True,
)

#: All forms by name, the default first.
RESULT_FORMS = {form.name: form for form in (FRAMES, JSON, AVRO, JSON_SCHEMA)}
