"""A message's format: its header `content-type` says it, or else a default, or else its first byte."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import Protocol

from spojoin.roles.router.arrow_rows import ARROW_CONTINUATION, FILE_MAGIC
from spojoin.roles.router.message_headers import Headers
from spojoin.wire.registered import MAGIC

CONTENT_TYPE = "content-type"
_OPEN = b"{"
_HEADERS_OF = attrgetter("headers")


class Format(enum.StrEnum):
    """How a message's value is written; AUTO looks at its first byte."""

    AUTO = "auto"
    JSON = "application/json"
    CSV = "text/csv"
    ARROW = "application/vnd.apache.arrow.stream"
    ARROW_FILE = "application/vnd.apache.arrow.file"
    #: which no header names: its values say so themselves
    REGISTERED = "application/vnd.schemaregistry"


#: A format, or the name of one that is not known, or None: no value.
Kind = Format | str | None
_KNOWN = frozenset(Format) - {Format.AUTO}
_SPELLED = {kind.value.encode(): kind for kind in _KNOWN}


class Message(Protocol):
    """A message as the broker gave it; `timestamp_ms` is when it was produced; without a value it has b"" or None."""

    @property
    def offset(self) -> int:
        """Its place in the partition."""
        ...

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970."""
        ...

    @property
    def value(self) -> bytes | None:
        """What it says."""
        ...

    @property
    def headers(self) -> Headers:
        """Names and values, in order; a name may stand several times."""
        ...


def by_kind(messages: Sequence[Message], default: Format) -> dict[Kind, list[int]]:
    """The places of messages, ascending, by the kind of each."""
    if _are_plain_json(messages, default):
        return {Format.JSON: list(range(len(messages)))}
    kinds: dict[Kind, list[int]] = defaultdict(list)
    for at, message in enumerate(messages):
        kinds[kind_of(message, default)].append(at)
    return kinds


def _are_plain_json(messages: Sequence[Message], default: Format) -> bool:
    """Whether all messages are JSON surely, as found without a decision for each."""
    if default not in (Format.AUTO, Format.JSON) or any(map(_HEADERS_OF, messages)):
        return False
    return {(message.value or b"")[:1] for message in messages} == {_OPEN}


def kind_of(message: Message, default: Format) -> Kind:
    """A message's kind."""
    value = message.value
    if not value:
        return None
    for name, content_type in message.headers:
        if name.lower() == CONTENT_TYPE and content_type is not None:
            return _unless_registered(_named(content_type), value)
    return _told_by(value) if default is Format.AUTO else _unless_registered(default, value)


def _unless_registered(said: Kind, value: bytes) -> Kind:
    is_registered = value[0] == MAGIC and said not in (Format.ARROW, Format.ARROW_FILE)
    return Format.REGISTERED if is_registered else said


def _named(content_type: bytes) -> Kind:
    if content_type in _SPELLED:
        return _SPELLED[content_type]
    name = content_type.split(b";")[0].strip().lower().decode("ascii", "replace")
    return Format(name) if name in _KNOWN else name


def _told_by(value: bytes) -> Format:
    first = value[:1]
    if first == _OPEN:
        return Format.JSON
    if value[0] == MAGIC:
        return Format.REGISTERED
    if value.startswith((ARROW_CONTINUATION, FILE_MAGIC)):
        return Format.ARROW
    return Format.JSON if value.lstrip()[:1] == _OPEN else Format.CSV
