"""Records that were read but not yet taken: one bounded queue per input."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import accumulate, groupby, islice
from operator import attrgetter

from spojoin.ports.interfaces import Clock, LogPartition, LogReader, LogRecord

#: an input with this much waiting is not read on until half of it has been taken
WAITING_BYTES_MAX = 16 << 20
WAITING_RECORDS_MAX = 20_000
POLL_RECORDS_MAX = 4_096


class Waiting:
    """The waiting records of one input."""

    __slots__ = ("bytes", "is_paused", "records")

    def __init__(self) -> None:
        self.records: deque[LogRecord[bytes]] = deque()
        self.bytes = 0
        self.is_paused = False

    def put(self, records: Sequence[LogRecord[bytes]]) -> None:
        """Add records of this input."""
        self.records.extend(records)
        self.bytes += sum([len(record.value) for record in records])

    def take(self) -> LogRecord[bytes]:
        """Remove the oldest record."""
        record = self.records.popleft()
        self.bytes -= len(record.value)
        return record

    def take_some(self, records_max: int, bytes_max: int) -> tuple[list[LogRecord[bytes]], int]:
        """Remove the oldest records, and say how many bytes their values have.

        They are at most `records_max`, and the first with which they have `bytes_max` or more is the last.
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
        """How full the queue is; 1 and more is full."""
        return max(self.bytes / WAITING_BYTES_MAX, len(self.records) / WAITING_RECORDS_MAX)


class Intake:
    """Queues in front of a machine, filled from one reader.

    A pause makes the client throw away what it fetched ahead. So a full queue is paused only while others are open;
    when all are full, nothing is read.
    """

    def __init__(self, reader: LogReader[bytes], clock: Clock) -> None:
        self.reader = reader
        self.waiting: dict[LogPartition, Waiting] = {}
        self._clock = clock

    def open(self, source: LogPartition, offset: int) -> None:
        """Read an input from `offset` on; what waited of it is forgotten."""
        self.reader.open(source, offset)
        self.waiting[source] = Waiting()

    def fill(self, timeout_s: float, *, even_full: bool = False) -> list[LogRecord[bytes]]:
        """Read on, waiting up to `timeout_s` for the first record; returns records of inputs not opened here.

        even_full: read although every queue is full: somebody waits for such a record
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
                queue.put(list(run))
        return others

    def is_drained(self, source: LogPartition) -> bool:
        """Whether everything that `source` held when last looked at has been taken."""
        return not self.waiting[source].records and self.reader.at_end(source)

    def has_passed(self, source: LogPartition, offset: int) -> bool:
        """Whether everything before `offset` has been taken."""
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
