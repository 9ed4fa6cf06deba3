"""Which prefix of a topic is no longer needed."""

from __future__ import annotations

from collections import deque

from spojoin.protocol.machine import Trim
from spojoin.protocol.topology import Topic


class TrimLedger:
    """Remembers how long each record is needed, and yields the offsets that trimming may reach.

    A topic is trimmed from its start, so a needed record keeps all later ones.
    """

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._needed: dict[int, deque[tuple[int, int]]] = {}
        self._trimmed: dict[int, int] = {}

    def note(self, partition: int, offset: int, needed_until: int) -> None:
        """A record at `offset` is needed until the bound given to `release` exceeds `needed_until`."""
        self._needed.setdefault(partition, deque()).append((offset, needed_until))

    def release(self, partition: int, bound: int) -> list[Trim]:
        """Forget records that `bound` has passed; at most one Trim."""
        records = self._needed.get(partition, deque())
        end = -1
        while records and records[0][1] < bound:
            end = max(end, records.popleft()[0] + 1)  # what was passed by reference has no place in the topic
        if records and end >= 0:
            end = max(end, records[0][0])
        if end <= self._trimmed.get(partition, 0):
            return []
        self._trimmed[partition] = end
        return [Trim(self._topic, partition, end)]

    def partitions(self) -> list[int]:
        """Partitions with records noted."""
        return sorted(self._needed)
