"""Rows as they came, for a router whose rows come in blocks: the messages are read again (P23)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spojoin.ports.interfaces import Log, LogPartition, LogReader, read_between
from spojoin.runtime.feeds import Parse
from spojoin.wire.records import Came, nothing_came


class OriginalMessages:
    """Reads messages of the inputs again, by their offsets; `open` comes before the first call."""

    def __init__(self, parse: Parse) -> None:
        self._parse = parse
        self._topics: Sequence[str] = ()
        self._reader: LogReader[bytes] | None = None

    def open(self, log: Log[bytes], topics: Sequence[str]) -> None:
        """Read from a log; `topics` are those of the inputs, in order."""
        self.close()
        self._topics, self._reader = topics, log.reader()

    def __call__(self, stream: int, partition: int, first: int, end: int) -> Callable[[int, int], Came]:
        """The function that returns the rows of messages with offsets [first, end) as they came.

        It returns nothing for messages that the input no longer holds.
        """
        assert self._reader is not None, "the inputs are opened before blocks are read"
        source = LogPartition(self._topics[stream], partition)
        found = list(read_between(self._reader, source, first, end))
        self._reader.drop(source)
        if not found:
            return nothing_came
        held, as_it_came = {record.offset for record in found}, self._parse(stream, partition, found).as_it_came
        return lambda offset, row: (as_it_came if offset in held else nothing_came)(offset, row)

    def close(self) -> None:
        """Close the reader."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
