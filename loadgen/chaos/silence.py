"""How long results are silent when a service or a server is struck, measured from the outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from loadgen.chaos import gaps
from loadgen.chaos.listener import Arrival
from spojoin.errors import SpoJoinError

#: All must be well for this long before the next fault.
CALM_S = 2.0
#: At most so many seconds of rows may be unanswered while all is well.
LAG_S = 1.0
#: How long usual gaps are noted before the first fault.
USUAL_S = 10.0
TEND_S = 0.02
LOOK_S = 0.25
#: After this time a service counts as not coming back.
STALL_S = 180.0
#: How long results are watched when Redis is gone: who is well is not known then.
LOST_S = 10.0
KAFKA, REDIS = "Kafka", "Redis"
ALL = "all"


class Strike(StrEnum):
    """What is done: to a process of a service, to all of them, to Kafka, and to Redis, last of all."""

    KILL = "kill"
    STOP = "stop"
    UPGRADE = "upgrade"
    REPLACEMENT = "replacement"
    RESTART = "restart"
    LOSS = "loss"


@dataclass(frozen=True, slots=True)
class PlannedStrike:
    """A fault to come: a service is struck by whichever of its instances speaks then; or it is a server's."""

    kind: Strike
    service: str


@dataclass(frozen=True, slots=True)
class Silence:
    """What a fault did.

    process: the one that was struck; gap_ms: the longest time between two results around it
    settled_s: from the fault until all was well again; own_ms: how long a server that was struck was away itself
    """

    kind: Strike
    service: str
    process: str
    gap_ms: float
    settled_s: float
    own_ms: float = 0.0


class SilenceNotOver(SpoJoinError):
    """Services did not come back after a fault."""


class StruckServices(Protocol):
    """Services under load, and what strikes them."""

    def services(self) -> Sequence[str]:
        """Names of the services."""
        ...

    def speaker(self, service: str) -> str:
        """The process that speaks for a service."""
        ...

    def kill(self, process: str) -> None:
        """SIGKILL."""
        ...

    def stop(self, process: str) -> None:
        """SIGSTOP."""
        ...

    def resume(self, process: str) -> None:
        """SIGCONT."""
        ...

    def upgrade(self) -> None:
        """Begin to put new processes in the place of all."""
        ...

    def replace_query(self) -> None:
        """Begin to put another query in the place of the one that is served."""
        ...

    def restart_kafka(self) -> float:
        """SIGKILL to the broker, and its start; seconds until a new client finds the results' end."""
        ...

    def lose_redis(self) -> None:
        """SIGKILL to the store, for good."""
        ...

    def tend(self) -> None:
        """Called repeatedly: restarts what has ended, raises what has failed."""
        ...

    def are_well(self, lag_s: float) -> bool:
        """Whether all run as they should, and no more rows are unanswered than come in `lag_s`."""
        ...

    def arrivals(self) -> Sequence[Arrival]:
        """When results came."""
        ...


@dataclass(frozen=True, slots=True)
class StrikeCounts:
    """How often each kind of fault comes."""

    kills: int = 0
    stops: int = 0
    upgrades: int = 0
    replacements: int = 0
    restarts: int = 0
    losses: int = 0


def planned(services: Sequence[str], counts: StrikeCounts) -> list[PlannedStrike]:
    """Faults in order: stops spread evenly among the kills, each kind round robin over the services.

    Then what is done to all services, and to servers.
    """
    kills, stops = counts.kills, counts.stops
    total = kills + stops
    is_stop = [(number + 1) * stops // total > number * stops // total for number in range(total)]
    turns = {Strike.KILL: 0, Strike.STOP: 0}
    strikes = []
    for each in is_stop:
        kind = Strike.STOP if each else Strike.KILL
        strikes.append(PlannedStrike(kind, services[turns[kind] % len(services)]))
        turns[kind] += 1
    strikes += [PlannedStrike(Strike.UPGRADE, ALL)] * counts.upgrades
    strikes += [PlannedStrike(Strike.REPLACEMENT, ALL)] * counts.replacements
    strikes += [PlannedStrike(Strike.RESTART, KAFKA)] * counts.restarts
    return strikes + [PlannedStrike(Strike.LOSS, REDIS)] * counts.losses


@dataclass(slots=True)
class SilenceRun:
    """Strikes one after the other, each when all are well again.

    stopped_s: from SIGSTOP to SIGCONT; note: called with what happens
    usual_ms: gaps before the first fault; found: what the faults did so far
    """

    struck: StruckServices
    stopped_s: float
    note: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    usual_ms: list[float] = field(default_factory=list)
    found: list[Silence] = field(default_factory=list)

    def run(self, strikes: Sequence[PlannedStrike]) -> None:
        """Make all faults. Raises SilenceNotOver, and what ended a service for good."""
        self._wait_until_well("at the start")
        began_s = self.clock()
        self._tend_for(USUAL_S)
        self.usual_ms += gaps.gaps_ms(self.struck.arrivals(), began_s, self.clock()).tolist()
        for strike in strikes:
            self.found.append(self._strike(strike))
            self.note(self._line(self.found[-1], len(strikes)))

    def _strike(self, strike: PlannedStrike) -> Silence:
        is_one = strike.kind in (Strike.KILL, Strike.STOP)
        process = self.struck.speaker(strike.service) if is_one else strike.service
        began_s = self.clock()
        own_s = self._carry_out(strike.kind, process)
        if strike.kind is not Strike.LOSS:
            self._wait_until_well(f"after {strike.kind} of {process}")
        ended_s = self.clock()
        gap_ms = gaps.longest_gap_ms(self.struck.arrivals(), began_s, ended_s)
        settled_s = 0.0 if strike.kind is Strike.LOSS else ended_s - began_s - CALM_S
        return Silence(strike.kind, strike.service, process, gap_ms, settled_s, 1000 * own_s)

    def _carry_out(self, kind: Strike, process: str) -> float:
        """Strike; seconds that a restarted server was away."""
        if kind is Strike.KILL:
            self.struck.kill(process)
        elif kind is Strike.STOP:
            self.struck.stop(process)
            self._tend_for(self.stopped_s)
            self.struck.resume(process)
        elif kind is Strike.UPGRADE:
            self.struck.upgrade()
        elif kind is Strike.REPLACEMENT:
            self.struck.replace_query()
        elif kind is Strike.LOSS:
            self.struck.lose_redis()
            self._tend_for(LOST_S)
        else:
            return self.struck.restart_kafka()
        return 0.0

    def _wait_until_well(self, when: str) -> None:
        """Until all has been well for CALM_S."""
        deadline_s = self.clock() + STALL_S
        well_since_s = None
        for now_s in self._tended():
            if not self.struck.are_well(LAG_S):
                well_since_s = None
            elif well_since_s is None:
                well_since_s = now_s
            elif now_s - well_since_s >= CALM_S:
                return
            if now_s > deadline_s:
                raise SilenceNotOver(f"{when} not all services were well within {STALL_S:.0f} s: look at their logs")

    def _tend_for(self, seconds: float) -> None:
        end_s = self.clock() + seconds
        while self.clock() < end_s:
            self.struck.tend()
            self.sleep(TEND_S)

    def _tended(self) -> Iterator[float]:
        """The time, every LOOK_S; services are tended meanwhile."""
        while True:
            self._tend_for(LOOK_S)
            yield self.clock()

    def _line(self, found: Silence, planned_: int) -> str:
        own = f", of which it was away itself for {found.own_ms:,.0f} ms" if found.own_ms else ""
        well = "" if found.kind is Strike.LOSS else f", all well after {found.settled_s:.1f} s"
        place = f"{len(self.found):4} of {planned_}  {found.kind} {found.process}"
        return f"{place}: silent for {found.gap_ms:,.0f} ms{own}{well}"
