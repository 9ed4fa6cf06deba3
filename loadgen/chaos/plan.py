"""A campaign's faults as plain data: the same seed and targets give the same schedule."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from spojoin.errors import ConfigurationError


class FaultKind(StrEnum):
    """The kind of a fault; the first three strike a service."""

    DELETE = "delete"
    KILL = "kill"
    PAUSE = "pause"
    BROKER = "broker"
    REDIS = "redis"

    @property
    def about(self) -> str:
        return _ABOUT[self]


_ABOUT = {
    FaultKind.DELETE: "pod deleted (locally: SIGTERM)",
    FaultKind.KILL: "process killed (SIGKILL)",
    FaultKind.PAUSE: "process stopped for a while (SIGSTOP, SIGCONT)",
    FaultKind.BROKER: "broker restarted",
    FaultKind.REDIS: "Redis flushed",
}
SERVICE_KINDS = (FaultKind.DELETE, FaultKind.KILL, FaultKind.PAUSE)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its time in seconds after the campaign's start, its kind and target, and the length of a pause."""

    at_s: float
    kind: FaultKind
    target: str
    lasts_s: float = 0.0

    def __str__(self) -> str:
        lasts = f" for {self.lasts_s:.1f} s" if self.lasts_s else ""
        return f"{self.at_s:7.1f} s  {self.kind:6} {self.target}{lasts}"


@dataclass(frozen=True, slots=True)
class Timing:
    """Faults come from `settle_s` to `duration_s` - `calm_s`, `every_s` apart on average; pauses last `pause_s_max`."""

    duration_s: float
    every_s: float = 5.0
    settle_s: float = 5.0
    calm_s: float = 5.0
    pause_s_max: float = 8.0


def plan(seed: int, targets: Sequence[str], kinds: Sequence[FaultKind], timing: Timing) -> tuple[Fault, ...]:
    """The faults of a campaign, ascending by time.

    They come in rounds. In a round each service is struck once, in any order and by kinds dealt in turn, and the
    broker and Redis once each.
    """
    rng = random.Random(f"chaos {seed}")
    faults: list[Fault] = []
    at_s = timing.settle_s
    for kind, target in _rounds(rng, targets, kinds):
        if at_s > timing.duration_s - timing.calm_s:
            return tuple(faults)
        lasts_s = round(rng.uniform(0.1, 1.0) * timing.pause_s_max, 1) if kind is FaultKind.PAUSE else 0.0
        faults.append(Fault(at_s, kind, target, lasts_s))
        at_s = round(at_s + timing.every_s * rng.uniform(0.5, 1.5), 2)
    raise ConfigurationError("--kinds names no fault for what runs: name at least one of " + ", ".join(FaultKind))


def _rounds(rng: random.Random, targets: Sequence[str], kinds: Sequence[FaultKind]) -> Iterator[tuple[FaultKind, str]]:
    """Endless kinds and targets; none if there is nothing to strike."""
    service_kinds = [kind for kind in SERVICE_KINDS if kind in kinds]
    others = [(kind, str(kind)) for kind in (FaultKind.BROKER, FaultKind.REDIS) if kind in kinds]
    struck = list(targets) if service_kinds else []
    deck = _dealt(rng, service_kinds)
    while struck or others:
        one = [*((next(deck), target) for target in struck), *others]
        rng.shuffle(one)
        yield from one


def _dealt(rng: random.Random, kinds: Sequence[FaultKind]) -> Iterator[FaultKind]:
    """All kinds in one order, then all in another."""
    return chain.from_iterable(rng.sample(kinds, len(kinds)) for _ in iter(lambda: bool(kinds), False))
