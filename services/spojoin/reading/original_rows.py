"""Rows as they came, for dead letters: a message, one line of several, or a row of Arrow as a JSON line."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import attrgetter

from spojoin.arrays import I64
from spojoin.reading.formats import format_of
from spojoin.reading.parsing import Message
from spojoin.wire.records import Came
from spojoin.wire.results import CONTENT_TYPE


def original_message(message: Message) -> Came:
    headers = tuple(message.headers)
    return Came(message.value or b"", getattr(message, "key", None), headers, message.timestamp_ms)


class OriginalRows:
    """The rows of messages, in the order of their offsets.

    row_counts: int64 (n,), how many rows of each message were read
    """

    def __init__(self, messages: Sequence[Message], row_counts: I64) -> None:
        self._messages = messages
        self._row_counts = row_counts
        self._taken_apart: tuple[int, Callable[[int], bytes]] | None = None

    def __call__(self, offset: int, row: int) -> Came:
        """A row as it came, by its place; the header `content-type` names its format if it isn't the message's."""
        at = bisect_left(self._messages, offset, key=attrgetter("offset"))
        message = self._messages[at]
        came, found = original_message(message), format_of(message)
        if self._row_counts[at] < found.rows_to_cut:
            return came
        if self._taken_apart is None or self._taken_apart[0] != offset:
            self._taken_apart = offset, found.take_apart(came.value)
        came = came._replace(value=self._taken_apart[1](row))
        if found.row_type is None:
            return came
        others = [each for each in came.headers if each[0].lower() != CONTENT_TYPE]
        return came._replace(headers=(*others, (CONTENT_TYPE, found.row_type.encode())))
