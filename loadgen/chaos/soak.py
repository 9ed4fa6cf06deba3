"""A soak: under load, faults and changes at random, while everything that comes out is recomputed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from loadgen.chaos.gaps import answered_at_s, longest_gap_ms
from loadgen.chaos.listener import Arrival
from loadgen.chaos.soak_plan import Act, PlannedAct, SoakSetup
from loadgen.chaos.soak_watch import DiskWatch, MemoryWatch

TEND_S = 0.05
LOOK_S = 1.0
#: So long all must be well before memory is sampled.
REST_S = 2.0
#: Rows of the input are kept for this long after their results are out.
INPUT_KEPT_S = 30.0
#: At most so many seconds of rows may be unanswered while all is well.
LAG_S = 1.0


class SoakParts(Protocol):
    """What is soaked."""

    @property
    def setup(self) -> SoakSetup:
        """How the query is served now."""
        ...

    @property
    def workers(self) -> int:
        """The number of workers last requested."""
        ...

    def start(self, setup: SoakSetup) -> None:
        """Move to another setup."""
        ...

    def pids(self) -> dict[str, int]:
        """The services' processes."""
        ...

    def tend(self) -> None:
        """Restart what has ended."""
        ...

    def is_settled(self) -> bool:
        """Whether all services are ready, each in its place."""
        ...

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to a service's process."""
        ...

    def restart_broker(self) -> None:
        """Kill and start Kafka, its data kept."""
        ...

    def restart_redis(self) -> None:
        """Kill and start Redis, its data lost."""
        ...

    def rescale(self, workers: int) -> None:
        """Request a number of workers."""
        ...

    def trim_input(self, before: int) -> None:
        """Delete messages of the input before an offset."""
        ...

    def memory(self) -> dict[str, int]:
        """Bytes that each service holds which has something to do."""
        ...

    def disk(self) -> Mapping[str, int]:
        """Bytes of each partition on the broker's disk."""
        ...


class SoakFlow(Protocol):
    """Rows in and results out."""

    @property
    def rows(self) -> int:
        """Rows sent so far."""
        ...

    @property
    def messages(self) -> int:
        """Messages sent so far."""
        ...

    @property
    def arrivals(self) -> Sequence[Arrival]:
        """When results came."""
        ...

    @property
    def answered(self) -> int:
        """Rows answered so far."""
        ...

    def check(self) -> None:
        """Raise what ended the load or the reading."""
        ...


@dataclass(slots=True)
class DoneAct:
    """An act that was done. due: rows that were in when it was over."""

    planned: PlannedAct
    what: str
    setup: str
    began_s: float
    due: int = 0

    def recovered_s(self, arrivals: Sequence[Arrival]) -> float | None:
        """From its beginning until all rows that were in by its end were answered; None while they aren't."""
        answered_s = answered_at_s(arrivals, self.due)
        return None if answered_s is None else max(0.0, answered_s - self.began_s)

    def gap_ms(self, arrivals: Sequence[Arrival]) -> float:
        """The longest silence until it was recovered from."""
        recovered_s = self.recovered_s(arrivals)
        end_s = arrivals[-1].at_s if recovered_s is None else self.began_s + recovered_s
        return longest_gap_ms(arrivals, self.began_s, max(end_s, self.began_s))


@dataclass(frozen=True, slots=True)
class SoakRules:
    """lasts_s: of the whole soak; stall_s: after this time without a result the services count as stuck."""

    lasts_s: float
    stall_s: float
    rate: float


@dataclass(slots=True)
class Soak:
    """Does one act after the other. note: called with what happens; stuck: what never came, if anything."""

    parts: SoakParts
    flow: SoakFlow
    rules: SoakRules
    memory: MemoryWatch
    disk: DiskWatch
    note: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    done: list[DoneAct] = field(default_factory=list)
    stuck: str | None = None
    _stopped: dict[int, float] = field(default_factory=dict)
    #: Moments, with the rows and messages that were sent by then.
    _kept: list[tuple[float, int, int]] = field(default_factory=list)
    #: How many rows were answered when that number last grew, and when that was.
    _moved: tuple[int, float] = (0, 0.0)
    _well_since_s: float | None = None
    _look_s: float = 0.0

    def run(self, acts: Iterator[PlannedAct]) -> None:
        """Until the time is over, or the services are stuck; whatever is stopped then goes on."""
        began_s = self.clock()
        self._moved = self.flow.answered, began_s
        self._until_well(began_s + self.rules.stall_s)
        while self.stuck is None and self.clock() < began_s + self.rules.lasts_s:
            planned = next(acts)
            self._pause(planned.after_s, began_s + self.rules.lasts_s)
            if self.stuck is not None or self.clock() >= began_s + self.rules.lasts_s:
                break
            self._do(planned, began_s)
            if not planned.is_hasty:
                self._until_well(self.clock() + self.rules.stall_s)
        self._resume(everything=True)

    def drain(self, is_sent: Callable[[], bool]) -> None:
        """Until everything is sent and answered, or the services are stuck."""
        while self.stuck is None and not (is_sent() and self.flow.answered >= self.flow.rows):
            self._turn()

    # --- acts ---------------------------------------------------------------------------------------------------------

    def _do(self, planned: PlannedAct, began_s: float) -> None:
        pids = self.parts.pids()
        process = planned.struck(list(pids))
        what = f"{planned} {process}" if planned.act in (Act.KILL, Act.STOP) else str(planned)
        done = DoneAct(planned, what, str(self.parts.setup), self.clock())
        self.note(f"{done.began_s - began_s:7.1f} s  {what}  ({done.setup})")
        self._well_since_s = None
        if planned.act is Act.KILL:
            self.parts.signal(pids[process], signal.SIGKILL)
        elif planned.act is Act.STOP:
            self.parts.signal(pids[process], signal.SIGSTOP)
            self._stopped[pids[process]] = self.clock() + planned.lasts_s
        elif planned.act is Act.BROKER:
            self.parts.restart_broker()
        elif planned.act is Act.REDIS:
            self.parts.restart_redis()
        elif planned.act is Act.RESCALE:
            self.parts.rescale(planned.workers)
        else:
            self._resume(everything=True)
            self.parts.start(planned.setup)
        done.due = self.flow.rows
        self.done.append(done)

    def _resume(self, *, everything: bool = False) -> None:
        """Let stopped processes go on whose time has come."""
        for pid, at_s in list(self._stopped.items()):
            if everything or at_s <= self.clock():
                self.parts.signal(pid, signal.SIGCONT)
                del self._stopped[pid]

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _pause(self, seconds: float, end_s: float) -> None:
        until_s = min(self.clock() + seconds, end_s)
        while self.stuck is None and self.clock() < until_s:
            self._turn()

    def _until_well(self, deadline_s: float) -> None:
        """Until all is well, so that acts don't only meet services that haven't started yet."""
        while self.stuck is None and self._well_since_s is None:
            self._turn()
            if self.clock() > deadline_s:
                self.stuck = f"not all services were well within {self.rules.stall_s:.0f} s"

    def _turn(self) -> None:
        self.sleep(TEND_S)
        self.parts.tend()
        self.flow.check()
        self._resume()
        now_s = self.clock()
        if self.flow.answered > self._moved[0]:
            self._moved = self.flow.answered, now_s
        if now_s - self._moved[1] > self.rules.stall_s:
            self.stuck = f"no result for {self.rules.stall_s:.0f} s"
        if now_s - self._look_s >= LOOK_S:
            self._look_s = now_s
            self._look(now_s)

    def _look(self, now_s: float) -> None:
        """Sample memory at rest, and the disk; let go of rows whose results are out."""
        is_behind = self.flow.rows - self.flow.answered > LAG_S * self.rules.rate
        if is_behind or self._stopped or not self.parts.is_settled():
            self._well_since_s = None
        elif self._well_since_s is None:
            self._well_since_s = now_s
        if self._well_since_s is not None and now_s - self._well_since_s >= REST_S:
            workers = f"{self.parts.workers} worker{'s' * (self.parts.workers > 1)}"
            self.memory.sample(f"{self.parts.setup}, {workers}", self.parts.memory())
        self.disk.sample(self.parts.disk())
        self._kept.append((now_s, self.flow.rows, self.flow.messages))
        answered, due_s = self.flow.answered, now_s - INPUT_KEPT_S
        over = sum(at_s < due_s and rows <= answered for at_s, rows, _ in self._kept)
        if over:
            self.parts.trim_input(self._kept[over - 1][2])
            del self._kept[:over]
