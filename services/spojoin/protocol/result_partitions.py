"""Which partition of the results holds what, and how far results are out in all of them (rule P20)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spojoin.protocol.machine import ResultPosition


@dataclass(frozen=True, slots=True)
class ResultPartition:
    """Partition `number` of `count`, which one sink writes.

    by_key: whether it holds its keys' rows of every frame (P20.7), instead of all rows of its frames (P20.2)
    """

    number: int
    count: int
    by_key: bool = False

    @property
    def first(self) -> ResultPosition:
        """Where the partition's results begin."""
        return ResultPosition(0 if self.by_key else self.number, 0)

    @property
    def step(self) -> int:
        """How many frames after one that the partition has its next one is."""
        return 1 if self.by_key else self.count

    @property
    def trims(self) -> bool:
        """Whether its sink trims what the sinks read; one does, since the positions of all of them decide."""  # P20.5
        return self.number == 0

    def has(self, frame_id: int) -> bool:
        """Whether results of a frame belong to the partition."""
        return self.by_key or self.counts(frame_id)

    def counts(self, frame_id: int) -> bool:
        """Whether a frame counts here, of all partitions that have it; so do its rows without a key."""
        return frame_id % self.count == self.number

    def next_owed(self, result_position: ResultPosition) -> ResultPosition:
        """What the partition still lacks if results are out so far everywhere, and nothing else is known."""
        if self.has(result_position.frame_id):
            return result_position
        return ResultPosition(result_position.frame_id + (self.number - result_position.frame_id) % self.count, 0)


WHOLE = ResultPartition(0, 1)


def partitions_of(count: int, *, by_key: bool = False) -> list[ResultPartition]:
    """All of `count` partitions; one is always the whole."""
    return [ResultPartition(number, count, by_key) for number in range(count)] if count > 1 else [WHOLE]


def out_everywhere(owed: Iterable[ResultPosition]) -> ResultPosition:  # P20.4
    """The result position of the whole join; owed: what each partition lacks."""
    return min(owed)
