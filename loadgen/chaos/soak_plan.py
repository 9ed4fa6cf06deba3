"""Draws a soak's acts from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from spojoin.protocol.packing import ANSWERER_NAME, APART, TOGETHER, parse_packing
from spojoin.protocol.topology import Role

#: Packings that a soak moves between.
PACKINGS = (TOGETHER, APART, "router+sink mutable+pojoin", ANSWERER_NAME)
#: Columns of workers, intakes, and logical ANDs where they have processes of their own, that a soak moves between.
COLUMNS, INTAKES, LOGICAL_ANDS = (1, 2), (0, 1, 2), (1, 2)
#: Sinks of a soak, which stay: another number is another generation of the query.
SINKS = (1, 2)
#: Share of acts that don't wait until all is well after the one before.
HASTY = 0.3


class Act(StrEnum):
    KILL = "kill"
    STOP = "stop"
    BROKER = "broker"
    REDIS = "redis"
    RESCALE = "rescale"
    MOVE = "move"
    STANDBYS = "standbys"

    @property
    def about(self) -> str:
        return _ABOUT[self]


_ABOUT = {
    Act.KILL: "process killed (SIGKILL)",
    Act.STOP: "process stopped for a while (SIGSTOP, SIGCONT)",
    Act.BROKER: "broker killed and started",
    Act.REDIS: "Redis killed and started, empty",
    Act.RESCALE: "other number of workers",
    Act.MOVE: "move to another packing, grid and number of intakes",
    Act.STANDBYS: "standbys on or off",
}
#: How often each act is drawn, relative to the others.
WEIGHTS = {Act.KILL: 6, Act.STOP: 4, Act.BROKER: 1, Act.REDIS: 1, Act.RESCALE: 2, Act.MOVE: 2, Act.STANDBYS: 1}


@dataclass(frozen=True, slots=True)
class SoakSetup:
    """A way to serve the query: the packing, whether each process has a second instance, and what divides the work."""

    packing: str = TOGETHER
    standbys: bool = True
    columns: int = 1
    logical_ands: int = 1
    intakes: int = 0

    def __str__(self) -> str:
        found = f"{self.packing}{' with standbys' if self.standbys else ''}, workers in {self.columns} column"
        found += "s" * (self.columns > 1)
        found += f", {self.logical_ands} logical ANDs" if self.logical_ands > 1 else ""
        return found + (f", {self.intakes} intake{'s' * (self.intakes > 1)}" if self.intakes else "")


@dataclass(frozen=True, slots=True)
class SoakLimits:
    """What stays through a soak: the largest number of workers, and the sinks."""

    workers: int
    sinks: int = 1

    @property
    def packings(self) -> list[str]:
        """The packings that have as many sinks."""
        return [each for each in PACKINGS if self.sinks == 1 or not parse_packing(each).is_shared(Role.SINK)]

    @property
    def first_setup(self) -> SoakSetup:
        """The setup in which a soak begins."""
        return SoakSetup(self.packings[0])


def sinks_of(seed: int) -> int:
    """The number of sinks of a soak."""
    return random.Random(f"sinks {seed}").choice(SINKS)


@dataclass(frozen=True, slots=True)
class PlannedAct:
    """One act.

    after_s: time to wait after the previous act; is_hasty: whether the act doesn't wait until all is well
    draw: a number in [0, 1) that chooses the struck process; lasts_s: of a stop; setup: of a move; workers: of a
    rescale
    """

    act: Act
    after_s: float
    is_hasty: bool
    draw: float
    lasts_s: float
    setup: SoakSetup
    workers: int

    def __str__(self) -> str:
        details = {
            Act.STOP: f" for {self.lasts_s:.1f} s",
            Act.MOVE: f" to {self.setup}",
            Act.STANDBYS: f": {self.setup}",
            Act.RESCALE: f" to {self.workers}",
        }
        return f"{self.act}{details.get(self.act, '')}"

    def struck(self, processes: Sequence[str]) -> str:
        """The process that a kill or a stop strikes."""
        return processes[int(self.draw * len(processes))]


def acts(seed: int, kinds: Sequence[Act], limits: SoakLimits, every_s: float) -> Iterator[PlannedAct]:
    """Endless acts; the same seed gives the same acts.

    every_s: average seconds between two acts while all is well
    """
    rng = random.Random(f"soak {seed}")
    setup, workers = limits.first_setup, 1
    while True:
        act = rng.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
        after_s, is_hasty, draw = every_s * rng.uniform(0.5, 1.5), rng.random() < HASTY, rng.random()
        lasts_s, other, step = (
            rng.uniform(0.5, 12.0),
            rng.randrange(len(limits.packings) - 1),
            rng.randrange(max(limits.workers - 1, 1)),
        )
        if act is Act.MOVE:
            packing = [each for each in limits.packings if each != setup.packing][other]
            logical_ands = 1 if parse_packing(packing).is_shared(Role.LOGICAL_AND) else rng.choice(LOGICAL_ANDS)
            setup = SoakSetup(packing, setup.standbys, rng.choice(COLUMNS), logical_ands, rng.choice(INTAKES))
        elif act is Act.STANDBYS:
            setup = replace(setup, standbys=not setup.standbys)
        elif act is Act.RESCALE:
            workers = ([each for each in range(1, limits.workers + 1) if each != workers] or [1])[step]
        yield PlannedAct(act, after_s, is_hasty, draw, round(lasts_s, 1), setup, workers)
