"""One generation of a query in a simulated run of several."""

from __future__ import annotations

from dataclasses import dataclass, field

from spojoin.protocol.backfill import Backfill
from spojoin.protocol.generations import Beginning
from spojoin.protocol.machine import START, ResultPosition
from spojoin.simulate.followers import FramesFollower, ResultsFollower
from spojoin.simulate.memorylog import SimulatedLog
from spojoin.simulate.scenario import Scenario
from spojoin.wire.records import SourceState


@dataclass(slots=True)
class Era:
    """One generation's log and its output."""

    number: int
    scenario: Scenario
    log: SimulatedLog
    begun: Beginning
    frames: FramesFollower = field(default_factory=FramesFollower)
    results: ResultsFollower = field(default_factory=ResultsFollower)
    result_positions: list[ResultPosition] = field(default_factory=lambda: [START])
    starts: SourceState = field(default_factory=dict)
    backfill: Backfill = Backfill.WINDOW
