"""Measures from outside how long results are silent after a fault of a service or a server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import orjson

from loadgen.chaos.driver import LocalDriver
from loadgen.chaos.listener import Arrival, gaps_ms, longest_gap_ms, percentile
from spojoin.errors import SpoJoinError
from spojoin.protocol.services import role_of
from spojoin.protocol.topology import Role

#: All services must be well for this long before the next fault.
CALM_S = 2.0
#: All is well only if fewer seconds of rows than this are unanswered.
LAG_S = 1.0
#: How long usual gaps are measured before the first fault.
USUAL_S = 10.0
TEND_S = 0.02
LOOK_S = 0.25
#: After this time a service counts as not coming back.
STALL_S = 180.0
#: How long results are watched when Redis is gone, since the services' health is unknown then.
LOST_S = 10.0
KAFKA, REDIS = "Kafka", "Redis"
ALL = "all"


class Strike(StrEnum):
    """Kinds of faults, in order: of one process of a service, of all processes, of Kafka, and last of Redis."""

    KILL = "kill"
    STOP = "stop"
    UPGRADE = "upgrade"
    REPLACEMENT = "replacement"
    RESTART = "restart"
    LOSS = "loss"


@dataclass(frozen=True, slots=True)
class PlannedStrike:
    """A planned fault of a server, or of the instance of a service that speaks at that time."""

    kind: Strike
    service: str


@dataclass(frozen=True, slots=True)
class Silence:
    """A fault's effect.

    process: the struck process; gap_ms: the longest time between two results around the fault
    settled_s: from the fault until all was well again; own_ms: how long a struck server was itself unavailable
    replays: how often processes other than the struck one read the log again
    """

    kind: Strike
    service: str
    process: str
    gap_ms: float
    settled_s: float
    own_ms: float = 0.0
    replays: int = 0


class SilenceNotOver(SpoJoinError):
    """Services did not come back after a fault."""


#: By name and id of a process, a number of replays.
Replays = Mapping[tuple[str, int], int]


class StruckServices(Protocol):
    """Services under load that can be struck."""

    @property
    def driver(self) -> LocalDriver:
        """Strikes one of them, or a server."""
        ...

    def services(self) -> Sequence[str]:
        """Names of the services."""
        ...

    def speaker(self, service: str) -> str:
        """The process that speaks for a service."""
        ...

    def upgrade(self) -> None:
        """Begin to replace all processes with new ones."""
        ...

    def replace_query(self) -> None:
        """Begin to replace the query that is served."""
        ...

    def restart_kafka(self) -> float:
        """Kill and start the broker; returns the seconds until a new client finds the results' end."""
        ...

    def tend(self) -> None:
        """Restart ended processes, and raise failures; called repeatedly."""
        ...

    def are_well(self, lag_s: float) -> bool:
        """Whether all services are well, and at most the rows of `lag_s` seconds are unanswered."""
        ...

    def arrivals(self) -> Sequence[Arrival]:
        """The times of results."""
        ...

    def replays(self) -> Replays:
        """How often each process has rebuilt its state from the log, its start included."""
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

    Faults of all services and of servers come last.
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
    """Injects faults one after the other, each when all services are well again.

    stopped_s: from SIGSTOP to SIGCONT; note: called with each event
    usual_ms: gaps before the first fault; found: the effects of the faults so far
    """

    struck: StruckServices
    stopped_s: float
    note: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    usual_ms: list[float] = field(default_factory=list)
    found: list[Silence] = field(default_factory=list)

    def run(self, strikes: Sequence[PlannedStrike]) -> None:
        """Inject all faults. Raises SilenceNotOver, and the error that ended a service for good."""
        self._wait_until_well("at the start")
        began_s = self.clock()
        self._tend_for(USUAL_S)
        self.usual_ms += gaps_ms(self.struck.arrivals(), began_s, self.clock()).tolist()
        for strike in strikes:
            self.found.append(self._strike(strike))
            self.note(self._line(self.found[-1], len(strikes)))

    def _strike(self, strike: PlannedStrike) -> Silence:
        is_one = strike.kind in (Strike.KILL, Strike.STOP)
        process = self.struck.speaker(strike.service) if is_one else strike.service
        before = self.struck.replays() if is_one else {}
        began_s = self.clock()
        own_s = self._carry_out(strike.kind, process)
        if strike.kind is not Strike.LOSS:
            self._wait_until_well(f"after {strike.kind} of {process}")
        ended_s = self.clock()
        gap_ms = longest_gap_ms(self.struck.arrivals(), began_s, ended_s)
        settled_s = 0.0 if strike.kind is Strike.LOSS else ended_s - began_s - CALM_S
        after = self.struck.replays() if is_one else {}
        replays = sum(count - before.get(of, 0) for of, count in after.items() if of[0] != process)
        return Silence(strike.kind, strike.service, process, gap_ms, settled_s, 1000 * own_s, replays)

    def _carry_out(self, kind: Strike, process: str) -> float:
        """Inject a fault; returns the seconds that a restarted server was unavailable."""
        if kind is Strike.KILL:
            self.struck.driver.kill(process)
        elif kind is Strike.STOP:
            self.struck.driver.pause(process)
            self._tend_for(self.stopped_s)
            self.struck.driver.resume(process)
        elif kind is Strike.UPGRADE:
            self.struck.upgrade()
        elif kind is Strike.REPLACEMENT:
            self.struck.replace_query()
        elif kind is Strike.LOSS:
            self.struck.driver.lose_redis()
            self._tend_for(LOST_S)
        else:
            return self.struck.restart_kafka()
        return 0.0

    def _wait_until_well(self, when: str) -> None:
        """Wait until all has been well for CALM_S."""
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
        """Yield the time every LOOK_S, and tend the services meanwhile."""
        while True:
            self._tend_for(LOOK_S)
            yield self.clock()

    def _line(self, found: Silence, planned_: int) -> str:
        own = f", of which it was away itself for {found.own_ms:,.0f} ms" if found.own_ms else ""
        well = "" if found.kind is Strike.LOSS else f", all well after {found.settled_s:.1f} s"
        place = f"{len(self.found):4} of {planned_}  {found.kind} {found.process}"
        return f"{place}: silent for {found.gap_ms:,.0f} ms{own}{well}"


#: The bars of the p99 and of the longest silence with standbys, and of the p99 of kills without, in milliseconds.
P99_MS, MAX_MS, P99_ALONE_MS = 1_000, 1_500, 4_000
#: The bar of the p99 of the loss of a worker for which another row answers; then nothing is read again.
P99_ROW_MS = 800
#: The bar of Kafka's restart: the silence beyond the time that the restart itself takes.
BEYOND_MS = 1_000
#: The bar of the longest silence around an operator's act.
CHANGED_MS = 3_000


@dataclass(frozen=True, slots=True)
class Exactness:
    """The check of the output.

    rows: rows sent; answered: tuples that have one result, in order, with their key
    recomputed: tuples whose counts were compared with the definition; wrong: tuples that differ
    """

    rows: int
    answered: int
    recomputed: int
    wrong: int
    differences: Sequence[str]

    @property
    def is_exact(self) -> bool:
        """Whether nothing is missing or differs."""
        return self.rows == self.answered and not self.wrong and not self.differences

    def __str__(self) -> str:
        verdict = "exact" if self.is_exact else "NOT exact"
        return (
            f"{verdict}: {self.answered:,} of {self.rows:,} rows answered in order, once, under their keys; "
            f"{self.recomputed:,} counts recomputed, {self.wrong:,} tuples differ"
        )


@dataclass(frozen=True, slots=True)
class SilenceOutcome:
    """A whole run. about: facts about it, by name; worker_rows: rows of workers; usual_ms: gaps without faults."""

    about: Mapping[str, object]
    has_standbys: bool
    worker_rows: int
    usual_ms: Sequence[float]
    found: Sequence[Silence]
    exactness: Exactness

    @property
    def is_passed(self) -> bool:
        """Whether the output is exact; missed bars of silences are only printed."""
        return self.exactness.is_exact


def markdown(outcome: SilenceOutcome) -> str:
    """The table, with facts about the run above it and the verdict below."""
    lines = [
        "; ".join(f"{name} {value}" for name, value in outcome.about.items()),
        "",
        "| fault | service | times | gap p50, ms | p99, ms | max, ms | all well again, median s | replays elsewhere "
        "| bar: p99, max, replays |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|",
        *_rows(outcome),
        "",
        str(outcome.exactness),
        *outcome.exactness.differences,
    ]
    return "\n".join(lines)


def as_json(outcome: SilenceOutcome) -> dict[str, object]:
    """The run as JSON."""
    return {
        **outcome.about,
        "usual_gaps": len(outcome.usual_ms),
        "exact": outcome.exactness.is_exact,
        "exactness": asdict(outcome.exactness),
        "faults": [asdict(found) for found in outcome.found],
    }


def write(outcome: SilenceOutcome, folder: Path) -> None:
    """Write silence.md and silence.json into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "silence.md").write_text(markdown(outcome) + "\n")
    (folder / "silence.json").write_bytes(orjson.dumps(as_json(outcome), option=orjson.OPT_INDENT_2))


def bar(kind: Strike, *, has_standbys: bool, has_rows: bool = False) -> str:
    """The bar of a kind of fault; for a restart of Kafka, it excludes the restart itself.

    has_rows: whether workers are struck, and another row of workers answers
    """
    if kind is Strike.RESTART:
        return f"-, {BEYOND_MS:,}, -"
    if kind in (Strike.UPGRADE, Strike.REPLACEMENT):
        return f"-, {CHANGED_MS:,}, -"
    if has_standbys:
        return f"{P99_MS:,}, {MAX_MS:,}, -"
    if kind is Strike.KILL:
        return f"{P99_ROW_MS:,}, -, 0" if has_rows else f"{P99_ALONE_MS:,}, -, -"
    return "-"


def _rows(outcome: SilenceOutcome) -> Iterator[str]:
    if outcome.usual_ms:
        yield f"| none | {ALL} | {len(outcome.usual_ms):,} gaps | {_gaps(outcome.usual_ms)} | - | - | - |"
    for kind in Strike:
        of_kind = [found for found in outcome.found if found.kind is kind]
        services = list(dict.fromkeys(found.service for found in of_kind))
        groups = {ALL: of_kind} if len(services) != 1 else {}
        groups |= {service: [found for found in of_kind if found.service == service] for service in services}
        for name, group in groups.items():
            if group:
                settled = _settled(kind, group)
                gaps_ms = _gaps([found.gap_ms - found.own_ms for found in group])
                promised = bar(kind, has_standbys=outcome.has_standbys, has_rows=_has_rows(outcome, group))
                replays = sum(found.replays for found in group)
                told = f"{gaps_ms} | {settled} | {replays} | {promised}"
                yield f"| {_label(kind, group)} | {name} | {len(group)} | {told} |"


def _has_rows(outcome: SilenceOutcome, group: Sequence[Silence]) -> bool:
    """Whether only workers were struck, and there are several rows of them."""
    return outcome.worker_rows > 1 and all(role_of(found.service) == Role.POJOIN for found in group)


def _settled(kind: Strike, group: Sequence[Silence]) -> str:
    """When all was well again; unknown without Redis."""
    if kind is Strike.LOSS:
        return "-"
    return f"{percentile([found.settled_s for found in group], 50):.1f}"


def _label(kind: Strike, group: Sequence[Silence]) -> str:
    own_ms = percentile([found.own_ms for found in group], 50)
    return f"{kind}, beyond its own {own_ms:,.0f} ms" if own_ms else str(kind)


def _gaps(gaps_ms: Sequence[float]) -> str:
    return " | ".join(f"{percentile(gaps_ms, percent):,.0f}" for percent in (50, 99, 100))
