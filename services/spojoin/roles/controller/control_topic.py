"""The topic of requested worker counts: reads the newest, writes newer ones, and keeps the last two."""

from __future__ import annotations

from collections import deque

from spojoin.errors import WireError
from spojoin.ports.interfaces import Clock, Log, LogPartition, LogRecord, LogUnavailable
from spojoin.wire.codec import decode, encode
from spojoin.wire.records import WorkerCount

RECORDS_MAX = 100
POLL_S = 0.1
#: how long reading the topic to its end may take
TIMEOUT_S = 30.0


class ControlTopic:
    """Reads and writes one query's worker counts. Raises LogUnavailable, AmbiguousAppend; WireError for other records.

    If two controllers write the same version, every reader takes the first; the second controller notices this when it
    reads on.
    """

    def __init__(self, log: Log[bytes], source: LogPartition, clock: Clock) -> None:
        self.newest: WorkerCount | None = None
        self._log = log
        self._source = source
        self._clock = clock
        self._offsets: deque[int] = deque(maxlen=2)
        self._reader = log.reader()
        self._writer = log.writer()
        self._reader.open(source, log.bounds(source).earliest)

    def refresh(self) -> WorkerCount | None:
        """Read to the end; return the newest worker count, if one was ever requested."""
        end = self._log.end(self._source)
        deadline_ms = self._clock.monotonic_ms() + 1000 * TIMEOUT_S
        while self._reader.position(self._source) < end:
            for record in self._reader.poll(RECORDS_MAX, POLL_S):
                self._take(record)
            if self._clock.monotonic_ms() > deadline_ms:
                raise LogUnavailable(f"the end of {self._source.topic} was not reached within {TIMEOUT_S:.0f} s")
        return self.newest

    def request(self, workers: int) -> None:
        """Write a worker count newer than all that were read."""
        version = 1 if self.newest is None else self.newest.version + 1
        self._writer.append(self._source, encode(WorkerCount(version, workers)))
        self._writer.flush(TIMEOUT_S)

    def close(self) -> None:
        """Close the readers and writers of the log."""
        self._writer.close()
        self._reader.close()

    def _take(self, record: LogRecord[bytes]) -> None:
        count = decode(record.value)
        if not isinstance(count, WorkerCount):
            kind = type(count).__name__
            raise WireError(
                f"{self._source.topic} offset {record.offset} holds a {kind}: only worker counts belong there"
            )
        if self.newest is None or count.version > self.newest.version:
            self.newest = count
            self._offsets.append(record.offset)
            # Keep one more than the newest, so that a router that is one record behind isn't cut off.
            self._log.trim(self._source, self._offsets[0])
