"""Reads the results of a query, from all partitions, each once and in the order of the log."""

from __future__ import annotations

from collections.abc import Iterator

from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import Log, LogPartition, LogRecord
from spojoin.wire.result_merge import ResultMerge
from spojoin.wire.results import BEGIN, ResultSequence, progress

RECORDS_MAX = 1_000


class OrderedResults:
    """The results in a topic. Only committed records are read; what was written twice is given once."""

    def __init__(self, log: Log[bytes], topic: str, *, from_start: bool = True) -> None:
        """from_start: whether to begin at the earliest results kept, instead of those that come from now on.

        Raises ConfigurationError if there is no such topic, LogUnavailable if Kafka doesn't answer.
        """
        count = log.partitions(topic)
        if not count:
            raise ConfigurationError(f"Kafka has no topic {topic!r}: start the query's services first")
        self._log = log
        self._sources = [LogPartition(topic, number) for number in range(count)]
        self._reader = log.reader()
        bounds = [log.bounds(source) for source in self._sources]
        self._ends = [each.end for each in bounds]
        for source, each in zip(self._sources, bounds, strict=True):
            self._reader.open(source, each.earliest if from_start else each.end)
        self._sequences = [ResultSequence() for _ in self._sources]
        self._merge = ResultMerge[LogRecord[bytes]](count, self._is_read)

    def poll(self, timeout_s: float) -> Iterator[LogRecord[bytes]]:
        """The next messages in order; none if none come in time."""
        for record in self._reader.poll(RECORDS_MAX, timeout_s):
            headers, number = dict(record.headers), record.input.partition
            found = progress(headers)
            if self._sequences[number].accepts(int(headers[BEGIN]), found):
                self._merge.take(number, found, record)
        yield from self._merge.in_order()

    @property
    def is_at_end(self) -> bool:
        """Whether everything was read that the topic held at the start."""
        ends = zip(self._sources, self._ends, strict=True)
        return all(self._reader.position(source) >= end for source, end in ends)

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()

    def _is_read(self, number: int) -> bool:
        source = self._sources[number]
        return self._reader.position(source) >= self._log.end(source)
