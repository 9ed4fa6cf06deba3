"""Where a message of a topic is in the topic's copy on another Kafka, whose offsets differ."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import Log, LogPartition, LogRecord

#: So many messages before a place must be the same in the copy.
ALIKE = 200
POLL_RECORDS, POLL_S = 1_000, 0.2

#: What a copy keeps of a message.
Content = tuple[int, bytes | None, bytes]


def place_in_copy(old: Log[bytes], new: Log[bytes], source: LogPartition, offset: int) -> int:
    """The offset in `new` of the message that has `offset` in `old`: it follows the same messages.

    Raises ConfigurationError where the copy has not come so far, or has them more than once; LogUnavailable.
    """
    first = max(old.bounds(source).earliest, offset - ALIKE)
    before = deque(_contents(old, source, first, offset), ALIKE)
    bounds = new.bounds(source)
    if not before:
        return bounds.earliest
    seen: deque[Content] = deque(maxlen=len(before))
    found = []
    for at, content in _placed(new, source, bounds.earliest, bounds.end):
        seen.append(content)
        if content == before[-1] and seen == before:
            found.append(at + 1)
    if len(found) == 1:
        return found[0]
    what = f"the copy of {source.topic}, partition {source.partition},"
    if found:
        raise ConfigurationError(f"{what} holds the {len(before)} messages before offset {offset:,} {len(found)} times")
    raise ConfigurationError(
        f"{what} doesn't hold the {len(before)} messages before offset {offset:,}: wait until all is copied, with "
        "keys, values and timestamps, and ask again"
    )


def _contents(log: Log[bytes], source: LogPartition, first: int, end: int) -> Iterator[Content]:
    return (content for at, content in _placed(log, source, first, end) if at < end)


def _placed(log: Log[bytes], source: LogPartition, first: int, end: int) -> Iterator[tuple[int, Content]]:
    reader = log.reader()
    try:
        reader.open(source, first)
        while reader.position(source) < end:
            yield from ((record.offset, _content(record)) for record in reader.poll(POLL_RECORDS, POLL_S))
    finally:
        reader.close()


def _content(record: LogRecord[bytes]) -> Content:
    return record.timestamp_ms, record.key, record.value
