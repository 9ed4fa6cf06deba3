"""A log for one seed: partitions by topic and number, trimmed from the front; every append is observed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from spojoin.protocol.topology import Topic
from spojoin.wire.records import Record

Target = tuple[Topic, int]


@dataclass(slots=True)
class Partition:
    """Records from offset `earliest` on."""

    earliest: int = 0
    records: list[Record] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self.earliest + len(self.records)


class SimulatedLog:
    """All topics of a query; `on_append` gets every record as it lands."""

    def __init__(self, on_append: Callable[[Target, Record], Record]) -> None:
        self.partitions: dict[Target, Partition] = {}
        self.trims = 0
        self._on_append = on_append

    def create(self, topic: Topic, count: int) -> None:
        """Make partitions 0..count-1 of a topic."""
        for number in range(count):
            self.partitions[topic, number] = Partition()

    def append(self, target: Target, record: Record) -> None:
        """Add a record at the end of its partition."""
        self.partitions[target].records.append(self._on_append(target, record))

    def trim(self, target: Target, before: int) -> None:
        """Delete records below an offset; a trim beyond the end is a bug of its caller."""
        partition = self.partitions[target]
        if before > partition.end:
            raise AssertionError(f"{target} is trimmed to {before}, beyond its end {partition.end}")
        if before > partition.earliest:
            del partition.records[: before - partition.earliest]
            partition.earliest = before
            self.trims += 1

    def retained(self, topic: Topic) -> int:
        """The number of records that a topic holds now."""
        return sum(len(p.records) for (t, _), p in self.partitions.items() if t is topic)
