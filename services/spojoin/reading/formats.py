"""The formats of messages: each is a class, and `FORMATS` is their table.

To add a format, add a class here and its entry in `FORMATS`. A message's format is named by its header `content-type`,
or is recognised by its first bytes. A first byte of zero means a registered schema in spite of the header, since no
text begins with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

import numpy as np

from spojoin.columns.extract import extract
from spojoin.errors import BadData
from spojoin.kernels.segments import places_within
from spojoin.protocol.topology import HEARTBEAT
from spojoin.reading.arrow_rows import (
    ARROW_CONTINUATION,
    FILE_MAGIC,
    ArrowMessages,
    by_schema,
    json_line,
    read_arrow,
    sound_table,
)
from spojoin.reading.csv_lines import CsvLines
from spojoin.reading.json_lines import JsonLines
from spojoin.reading.lines import LineReader
from spojoin.reading.parsing import TIME_MS_MAX, Message, Parsing
from spojoin.reading.readout import DELETE, BadMessage, Decoder, Readout, Wanted, columns_needed
from spojoin.reading.registered_rows import AlikeMessages, UnreadableMessages
from spojoin.wire.registered import MAGIC, PREFIX_BYTES
from spojoin.wire.results import CONTENT_TYPE, GENERATION

_OPEN = b"{"
_HEADERS_OF = attrgetter("headers")


class InputFormat(ABC):
    """A format of messages.

    content_types: those that name it; None is that of messages without a value
    first_bytes: those of values that no header names
    about: its name, how it is recognised, and its rows, in the words of the page on formats
    row_type: the content type of a row that was cut out of a message; None if that is the message's own
    rows_to_cut: from how many rows on a message is taken apart for its dead letters
    """

    content_types: ClassVar[tuple[str | None, ...]] = ()
    first_bytes: ClassVar[tuple[bytes, ...]] = ()
    about: ClassVar[tuple[str, str, str]]
    row_type: ClassVar[str | None] = None
    rows_to_cut: ClassVar[int] = 2

    @abstractmethod
    def read(self, parsing: Parsing, places: list[int]) -> None:
        """Read the messages at these places, each row as a row or a dead letter."""

    def take_apart(self, value: bytes) -> Callable[[int], bytes]:
        """The function that returns a row of a message by its number."""
        raise NotImplementedError


class JsonFormat(InputFormat):
    """Objects of JSON, one a line."""

    content_types = (row_type,) = ("application/json",)
    first_bytes = (_OPEN,)
    about = ("JSON", f"header `content-type: {row_type}`, or `{{` first", "one object, or one a line")

    def read(self, parsing: Parsing, places: list[int]) -> None:
        _read_lines(parsing, places, JsonLines(parsing.stream, parsing.needs_time, parsing.index))

    def take_apart(self, value: bytes) -> Callable[[int], bytes]:
        return JsonLines.split(value).__getitem__


class CsvFormat(InputFormat):
    """Lines of CSV."""

    content_types = (row_type,) = ("text/csv",)
    about = ("CSV", f"`{row_type}`, or anything else", "one a line, without a header line")

    def read(self, parsing: Parsing, places: list[int]) -> None:
        if (envelope := parsing.stream.envelope) is not None:
            for at in places:
                parsing.bury(at, 0, "malformed", f"envelope {envelope}: a CSV line has no such field")
            return
        _read_lines(parsing, places, CsvLines(parsing.stream, parsing.needs_time, parsing.index))

    def take_apart(self, value: bytes) -> Callable[[int], bytes]:
        return CsvLines.split(value).__getitem__


class ArrowFormat(InputFormat):
    """Batches of Arrow, as an IPC stream or file; small messages of one schema are read together."""

    content_types = ("application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.file")
    first_bytes = (ARROW_CONTINUATION, FILE_MAGIC)
    about = (
        "Arrow IPC",
        f"`{content_types[0]}` or `.file`, or its first bytes",
        "the rows of all batches",
    )
    row_type = JsonFormat.row_type
    rows_to_cut = 1

    def read(self, parsing: Parsing, places: list[int]) -> None:
        for messages in by_schema(places, [parsing.messages[at].value or b"" for at in places]):
            self._read_alike(parsing, messages)

    def _read_alike(self, parsing: Parsing, messages: ArrowMessages) -> None:
        places = np.array(messages.places, np.int64)
        try:
            readout, counts = read_arrow(
                parsing.stream, parsing.needs_time, parsing.index, messages, parsing.headers_of
            )
        except BadMessage as error:
            if len(places) > 1:
                for each in messages.one_by_one():
                    self._read_alike(parsing, each)
            else:
                parsing.bury(messages.places[0], 0, error.reason, error.detail)
            return
        parsing.row_counts[places] = counts
        parsing.take(readout, np.repeat(places, counts), places_within(counts))

    def take_apart(self, value: bytes) -> Callable[[int], bytes]:
        table = sound_table(value)
        return lambda row: json_line(table.slice(row, 1))


class RegisteredFormat(InputFormat):
    """Avro, Protobuf and JSON of registered schemas; no header names this format, which the first byte shows."""

    content_types = ("application/vnd.schemaregistry",)
    first_bytes = (bytes([MAGIC]),)
    about = (
        "Avro, Protobuf, JSON Schema with a registry",
        "a first byte of 0, regardless of the header, except Arrow's",
        "one",
    )

    def read(self, parsing: Parsing, places: list[int]) -> None:
        for alike in parsing.schemas.sort([(at, parsing.messages[at].value or b"") for at in places]):
            if isinstance(alike, UnreadableMessages):
                for at in alike.places:
                    parsing.bury(at, 0, alike.reason, alike.detail)
            elif alike.decoder is None:
                reader = JsonLines(parsing.stream, parsing.needs_time, parsing.index)
                _read_lines(parsing, alike.places, reader, alike.data)
            else:
                self._read_decoded(parsing, alike, alike.decoder)

    def _read_decoded(self, parsing: Parsing, alike: AlikeMessages, decoder: Decoder) -> None:
        """Read messages of one schema, each a row."""
        stream, readout, places = parsing.stream, Readout(), np.array(alike.places, np.int64)
        try:
            wanted = Wanted(columns_needed(stream, parsing.needs_time), stream.envelope)
            decoded = decoder.read(alike.data, wanted)
            readout.faults += decoded.faults
            add_headers = parsing.headers_of(places)
            rows = decoded.rows if add_headers is None else add_headers(decoded.rows, decoded.ids)
            readout.keep_rows_and_faults(decoded.ids, extract(stream, rows, parsing.needs_time, parsing.index))
        except BadMessage as error:
            readout = Readout.all_at_fault(len(places), error.reason, error.detail)
        except BadData as error:
            readout = Readout.all_at_fault(len(places), "type", str(error))
        parsing.row_counts[places] = 1
        parsing.take(readout, places, np.zeros(len(places), np.int64))

    def take_apart(self, value: bytes) -> Callable[[int], bytes]:
        """The lines of JSON, each with the id of the schema: Avro and Protobuf have one row in each message."""
        return [value[:PREFIX_BYTES] + line for line in JsonLines.split(value[PREFIX_BYTES:])].__getitem__


class NoValueFormat(InputFormat):
    """Messages without a value, which hold no row; a heartbeat promises that no row before its time follows."""

    content_types = (None,)
    about = (
        f"nothing, with the header `{HEARTBEAT}`",
        "no value",
        "none: no row earlier than this event time, in ms, follows",
    )

    def read(self, parsing: Parsing, places: list[int]) -> None:
        for at in places:
            headers = dict(parsing.messages[at].headers)
            text = headers.get(HEARTBEAT)
            if GENERATION in headers:  # the progress of another query, without a result
                continue
            if parsing.stream.table is not None:  # this deletes its key's row
                continue
            if text is None and parsing.stream.envelope is not None:
                parsing.bury(at, 0, DELETE, "a tombstone: no value, so the row of its key is gone")
            elif text is None:
                parsing.bury(at, 0, "malformed", f"an empty value, and no header {HEARTBEAT}")
            elif not text.isdigit() or int(text) > TIME_MS_MAX:
                parsing.bury(at, 0, "malformed", f"header {HEARTBEAT} is {text!r}, expected milliseconds since 1970")
            else:
                parsing.heartbeat_us = max(parsing.heartbeat_us or 0, int(text) * 1000)


@dataclass(frozen=True)
class UnknownFormat(InputFormat):
    """Messages whose header names no format."""

    name: str

    def read(self, parsing: Parsing, places: list[int]) -> None:
        known = ", ".join(name for name in _BY_TYPE if name is not None)
        for at in places:
            parsing.bury(at, 0, "malformed", f"content-type {self.name!r} is none of {known}")


JSON, CSV, ARROW, REGISTERED, NO_VALUE = (
    JsonFormat(),
    CsvFormat(),
    ArrowFormat(),
    RegisteredFormat(),
    NoValueFormat(),
)

#: All formats, in the order of the page.
FORMATS: tuple[InputFormat, ...] = (JSON, CSV, ARROW, REGISTERED, NO_VALUE)

_BY_TYPE = {name: each for each in FORMATS for name in each.content_types}
_SPELLED = {name.encode(): each for name, each in _BY_TYPE.items() if name is not None}
_BY_FIRST_BYTES = [(each.first_bytes, each) for each in FORMATS if each.first_bytes]


def by_format(messages: Sequence[Message]) -> dict[InputFormat, list[int]]:
    """The places of messages, ascending, by format."""
    if _are_plain_json(messages):
        return {JSON: list(range(len(messages)))}
    found: dict[InputFormat, list[int]] = defaultdict(list)
    for at, message in enumerate(messages):
        found[format_of(message)].append(at)
    return found


def _are_plain_json(messages: Sequence[Message]) -> bool:
    """Whether all messages are certainly JSON, which is found without checking each one's headers."""
    if any(map(_HEADERS_OF, messages)):
        return False
    return {(message.value or b"")[:1] for message in messages} == {_OPEN}


def format_of(message: Message) -> InputFormat:
    """The format of one message."""
    value = message.value
    if not value:
        return NO_VALUE
    for name, content_type in message.headers:
        if name.lower() == CONTENT_TYPE and content_type is not None:
            said = _named(content_type)
            return REGISTERED if value[0] == MAGIC and said is not ARROW else said
    for first_bytes, each in _BY_FIRST_BYTES:
        if value.startswith(first_bytes):
            return each
    return JSON if value.lstrip()[:1] == _OPEN else CSV


def _named(content_type: bytes) -> InputFormat:
    if content_type in _SPELLED:
        return _SPELLED[content_type]
    name = content_type.split(b";")[0].strip().lower().decode("ascii", "replace")
    return _BY_TYPE.get(name) or UnknownFormat(name)


def _read_lines(parsing: Parsing, places: list[int], reader: LineReader, data: Sequence[bytes] | None = None) -> None:
    """Read messages of text; data: their texts, if the messages have a prefix."""
    texts = [parsing.messages[at].value or b"" for at in places] if data is None else data
    lines, counts = reader.split_all(texts)
    for blank in np.flatnonzero(counts == 0).tolist():
        parsing.bury(places[blank], 0, "malformed", "the message holds nothing but white space")
    parsing.row_counts[places] = counts
    owners, row_of = np.repeat(np.array(places, np.int64), counts), places_within(counts)
    reader.add_headers = parsing.headers_of(owners)
    parsing.take(reader.read(lines), owners, row_of)
