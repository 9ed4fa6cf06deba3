"""What a partition holds between two offsets."""

from __future__ import annotations

from collections.abc import Iterator

from spojoin.ports.interfaces import Log, LogPartition, LogRecord, V

RECORDS_MAX, POLL_S = 1_000, 0.1


def records_between(log: Log[V], source: LogPartition, first: int, end: int) -> Iterator[LogRecord[V]]:
    """Its records from offset `first` to before `end`, in order. Raises LogUnavailable."""
    reader = log.reader()
    try:
        reader.open(source, first)
        while reader.position(source) < end:
            yield from (record for record in reader.poll(RECORDS_MAX, POLL_S) if record.offset < end)
    finally:
        reader.close()
