"""Records that were read but not yet taken: one bounded queue for each input."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import accumulate, groupby, islice
from operator import attrgetter

from spojoin.ports.interfaces import Clock, LogPartition, LogReader, LogRecord

#: reading of an input with this many waiting bytes pauses until half of them were taken
WAITING_BYTES_MAX = 16 << 20
WAITING_RECORDS_MAX = 20_000
POLL_RECORDS_MAX = 4_096


class WaitingRecords:
    """The waiting records of one input."""

    __slots__ = ("bytes", "is_paused", "records")

    def __init__(self) -> None:
        self.records: deque[LogRecord[bytes]] = deque()
        self.bytes = 0
        self.is_paused = False

    def add_records(self, records: Sequence[LogRecord[bytes]]) -> None:
        """Add records of this input."""
        self.records.extend(records)
        self.bytes += sum([len(record.value) for record in records])

    def take_oldest(self) -> LogRecord[bytes]:
        """Remove the oldest record."""
        record = self.records.popleft()
        self.bytes -= len(record.value)
        return record

    def take_records(self, records_max: int, bytes_max: int) -> tuple[list[LogRecord[bytes]], int]:
        """Remove the oldest records, and return them with the number of bytes of their values.

        There are at most `records_max`, and the record that reaches `bytes_max` is the last.
        """
        ends = list(accumulate([len(record.value) for record in islice(self.records, records_max)]))
        count = min(bisect_left(ends, bytes_max) + 1, len(ends))
        size = ends[count - 1] if count else 0
        self.bytes -= size
        return [self.records.popleft() for _ in range(count)], size

    def clear(self) -> None:
        """Remove all."""
        self.records.clear()
        self.bytes = 0

    @property
    def fill(self) -> float:
        """How full the queue is; full from 1 on."""
        return max(self.bytes / WAITING_BYTES_MAX, len(self.records) / WAITING_RECORDS_MAX)


class ReadAhead:
    """Queues in front of a machine, filled from one reader.

    A pause makes the client discard what it fetched ahead. So the input of a full queue is paused only while others are
    open; if all are full, nothing is read.
    """

    def __init__(self, reader: LogReader[bytes], clock: Clock) -> None:
        self.reader = reader
        self.waiting: dict[LogPartition, WaitingRecords] = {}
        self._clock = clock

    def open(self, source: LogPartition, offset: int) -> None:
        """Read an input from `offset` on; forget its waiting records."""
        self.reader.open(source, offset)
        self.waiting[source] = WaitingRecords()

    def fill(self, timeout_s: float, *, even_full: bool = False) -> list[LogRecord[bytes]]:
        """Read, waiting up to `timeout_s` for the first record; return records of inputs that weren't opened here.

        even_full: read although every queue is full, since the caller waits for a returned record
        """
        self._balance()
        if not even_full and self.waiting and all(queue.fill >= 1 for queue in self.waiting.values()):
            if timeout_s > 0:
                self._clock.sleep(timeout_s)
            return []
        others: list[LogRecord[bytes]] = []
        for source, run in groupby(self.reader.poll(POLL_RECORDS_MAX, timeout_s), key=attrgetter("input")):
            queue = self.waiting.get(source)
            if queue is None:
                others += run
            else:
                queue.add_records(list(run))
        return others

    def is_drained(self, source: LogPartition) -> bool:
        """Whether all records up to the last known end of `source` were taken."""
        return not self.waiting[source].records and self.reader.at_end(source)

    def has_passed(self, source: LogPartition, offset: int) -> bool:
        """Whether all records before `offset` were taken."""
        records = self.waiting[source].records
        return (records[0].offset if records else self.reader.position(source)) >= offset

    def _balance(self) -> None:
        is_all_full = all(queue.fill >= 1 for queue in self.waiting.values())
        for source, queue in self.waiting.items():
            if not queue.is_paused and queue.fill >= 1 and not is_all_full:
                self.reader.pause(source)
                queue.is_paused = True
            elif queue.is_paused and queue.fill <= 0.5:
                self.reader.resume(source)
                queue.is_paused = False
