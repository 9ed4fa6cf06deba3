"""Which partition of the results holds a frame's, and how far results are out in all of them (rule P20)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spojoin.protocol.machine import ResultPosition


@dataclass(frozen=True, slots=True)
class ResultPartition:
    """Partition `number` of `count`, which one sink writes."""

    number: int
    count: int

    @property
    def first(self) -> ResultPosition:
        """Where the partition's results begin."""
        return ResultPosition(self.number, 0)

    @property
    def trims(self) -> bool:
        """Whether its sink trims what the sinks read; one does, since the positions of all of them decide."""  # P20.5
        return self.number == 0

    def has(self, frame_id: int) -> bool:  # P20.2
        """Whether a frame's results belong to the partition."""
        return frame_id % self.count == self.number

    def next_owed(self, result_position: ResultPosition) -> ResultPosition:
        """What the partition still lacks if results are out so far everywhere, and nothing else is known."""
        frame_id = result_position.frame_id + (self.number - result_position.frame_id) % self.count
        return ResultPosition(frame_id, result_position.position if frame_id == result_position.frame_id else 0)


WHOLE = ResultPartition(0, 1)


def partitions_of(count: int) -> list[ResultPartition]:
    """All of `count` partitions."""
    return [ResultPartition(number, count) for number in range(count)]


def out_everywhere(owed: Iterable[ResultPosition]) -> ResultPosition:  # P20.4
    """The result position of the whole join; owed: what each partition lacks."""
    return min(owed)
