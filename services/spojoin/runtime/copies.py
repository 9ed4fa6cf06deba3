"""Where a message of a topic is in the topic's copy on another Kafka, whose offsets differ."""

from __future__ import annotations

from collections import deque

from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import Log, LogPartition, LogRecord
from spojoin.ports.reading import records_between

#: So many messages before a place must be the same in the copy.
ALIKE = 200

#: What a copy keeps of a message.
Content = tuple[int, bytes | None, bytes]


def place_in_copy(old: Log[bytes], new: Log[bytes], source: LogPartition, offset: int) -> int:
    """The offset in `new` of the message that has `offset` in `old`: it follows the same messages.

    Raises ConfigurationError where the copy has not come so far, or has them more than once; LogUnavailable.
    """
    first = max(old.bounds(source).earliest, offset - ALIKE)
    before = deque(map(_content, records_between(old, source, first, offset)), ALIKE)
    bounds = new.bounds(source)
    if not before:
        return bounds.earliest
    seen: deque[Content] = deque(maxlen=len(before))
    found = []
    for record in records_between(new, source, bounds.earliest, bounds.end):
        seen.append(_content(record))
        if seen[-1] == before[-1] and seen == before:
            found.append(record.offset + 1)
    if len(found) == 1:
        return found[0]
    what = f"the copy of {source.topic}, partition {source.partition},"
    if found:
        raise ConfigurationError(f"{what} holds the {len(before)} messages before offset {offset:,} {len(found)} times")
    raise ConfigurationError(
        f"{what} doesn't hold the {len(before)} messages before offset {offset:,}: wait until all is copied, with "
        "keys, values and timestamps, and ask again"
    )


def _content(record: LogRecord[bytes]) -> Content:
    return record.timestamp_ms, record.key, record.value
