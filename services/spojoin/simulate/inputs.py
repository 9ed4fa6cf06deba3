"""A scenario's inputs as a log that can be read from any offset, for a new generation's backfill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spojoin.ports.interfaces import Bounds, LogPartition, LogRecord
from spojoin.simulate.messages import Source
from spojoin.simulate.scenario import Scenario, parse
from spojoin.wire.records import Rows

#: Messages returned at once: so few that a reader has to poll again.
POLLED = 3


class InputsLog:
    """Topics are streams' numbers as text; the first `available` messages of each partition are written."""

    def __init__(self, scenario: Scenario, available: Mapping[Source, int]) -> None:
        self._scenario = scenario
        self._available = available

    def partitions(self, topic: str) -> int:
        """How many partitions a stream has."""
        return sum(stream == int(topic) for stream, _ in self._scenario.inputs)

    def bounds(self, source: LogPartition) -> Bounds:
        """All that was written is retained."""
        return Bounds(0, self._available[int(source.topic), source.partition])

    def reader(self) -> InputsReader:
        """A reader with nothing open."""
        return InputsReader(self)

    def parse(self, stream: int, partition: int, records: Sequence[LogRecord[bytes]]) -> Rows:
        """Rows of consecutive messages, as the router gets them."""
        messages = self._scenario.inputs[stream, partition]
        return parse(self._scenario, (stream, partition), messages[records[0].offset : records[-1].offset + 1], 0)


class InputsReader:
    """Reads one input."""

    def __init__(self, log: InputsLog) -> None:
        self._log = log
        self._positions: dict[LogPartition, int] = {}

    def open(self, source: LogPartition, offset: int) -> None:
        """Read on from an offset."""
        self._positions[source] = offset

    def drop(self, source: LogPartition) -> None:
        """Stop reading an input."""
        del self._positions[source]

    def poll(self, records_max: int, timeout_s: float) -> list[LogRecord[bytes]]:
        """The next few messages of the one input that is open."""
        ((source, at),) = self._positions.items()
        end = min(at + min(POLLED, records_max), self._log.bounds(source).end)
        self._positions[source] = end
        return [LogRecord(source, offset, offset, b"", ()) for offset in range(at, end)]

    def position(self, source: LogPartition) -> int:
        """The offset behind the last message given."""
        return self._positions[source]

    def at_end(self, source: LogPartition) -> bool:
        """Whether the input has no more messages."""
        return self._positions[source] >= self._log.bounds(source).end

    def close(self) -> None:
        """Nothing is held."""
