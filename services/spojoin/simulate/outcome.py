"""What the run of one seed leaves behind, for the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from spojoin.protocol.topology import Topic
from spojoin.simulate.followers import FramesFollower, ResultsFollower
from spojoin.wire.records import DeadLetter


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What came out, and what is held and retained at rest.

    dead_lost: dead letters that were under way when their process died.
    faults: what went wrong on purpose, in words.
    retained: records by topic; frames_retained, batch_tuples: of these, the frames and batches that count.
    state_tuples: tuples held by each process, by its name.
    """

    frames: FramesFollower
    results: ResultsFollower
    dead: list[DeadLetter]
    dead_lost: list[DeadLetter]
    faults: list[str]
    retained: dict[Topic, int]
    frames_retained: int
    batch_tuples: int
    state_tuples: dict[str, int]
    steps: int
    came_to_rest: bool
