"""A soak makes random faults and changes under load, and recomputes all results meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from loadgen.chaos.driver import LocalDriver
from loadgen.chaos.listener import Arrival, answered_at_s, longest_gap_ms, percentile
from loadgen.chaos.soak_plan import Act, PlannedAct, SoakSetup
from loadgen.chaos.watch import GROWTH_MAX, DiskWatch, Growth, MemoryWatch

TEND_S = 0.05
LOOK_S = 1.0
#: All must be well for this long before memory is sampled.
REST_S = 2.0
#: Rows of the input are kept for this long after their results are out.
INPUT_KEPT_S = 30.0
#: All is well only if fewer seconds of rows than this are unanswered.
LAG_S = 1.0


class SoakParts(Protocol):
    @property
    def driver(self) -> LocalDriver:
        """The driver that strikes the current services and servers."""
        ...

    @property
    def setup(self) -> SoakSetup:
        """The current setup."""
        ...

    @property
    def workers(self) -> int:
        """The number of workers last requested."""
        ...

    def start(self, setup: SoakSetup) -> None:
        """Move to another setup."""
        ...

    def is_settled(self) -> bool:
        """Whether all services are ready, each with its speaker."""
        ...

    def rescale(self, workers: int) -> None:
        """Request a number of workers."""
        ...

    def trim_input(self, before: int) -> None:
        """Delete messages of the input before an offset."""
        ...

    def memory(self) -> dict[str, int]:
        """Memory in bytes of each service that has work."""
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
        """The times of results."""
        ...

    @property
    def answered(self) -> int:
        """Rows answered so far."""
        ...

    def check(self) -> None:
        """Raise the exception that ended the load or the reading."""
        ...


@dataclass(slots=True)
class DoneAct:
    """An act that was done. due: rows sent by its end."""

    planned: PlannedAct
    what: str
    setup: str
    began_s: float
    due: int = 0

    def recovered_s(self, arrivals: Sequence[Arrival]) -> float | None:
        """Seconds from its beginning until all rows sent by its end were answered; None before that."""
        answered_s = answered_at_s(arrivals, self.due)
        return None if answered_s is None else max(0.0, answered_s - self.began_s)

    def gap_ms(self, arrivals: Sequence[Arrival]) -> float:
        """The longest silence until the services recovered from it."""
        recovered_s = self.recovered_s(arrivals)
        end_s = arrivals[-1].at_s if recovered_s is None else self.began_s + recovered_s
        return longest_gap_ms(arrivals, self.began_s, max(end_s, self.began_s))


@dataclass(frozen=True, slots=True)
class SoakRules:
    """lasts_s: the soak's duration; stall_s: after this time without a result the services count as stuck."""

    lasts_s: float
    stall_s: float
    rate: float


@dataclass(slots=True)
class Soak:
    """Does one act after the other. note: called with each event; stuck: the missing event, if any."""

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
    _stopped: dict[str, float] = field(default_factory=dict)
    #: Times, with the numbers of rows and messages sent by then.
    _kept: list[tuple[float, int, int]] = field(default_factory=list)
    #: The number of answered rows, and the time at which it last grew.
    _moved: tuple[int, float] = (0, 0.0)
    _well_since_s: float | None = None
    _look_s: float = 0.0

    def run(self, acts: Iterator[PlannedAct]) -> None:
        """Act until the time is over or the services are stuck, then resume all stopped processes."""
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
        """Wait until everything is sent and answered, or the services are stuck."""
        while self.stuck is None and not (is_sent() and self.flow.answered >= self.flow.rows):
            self._turn()

    # --- acts ---------------------------------------------------------------------------------------------------------

    def _do(self, planned: PlannedAct, began_s: float) -> None:
        driver = self.parts.driver
        process = planned.struck(driver.targets())
        what = f"{planned} {process}" if planned.act in (Act.KILL, Act.STOP) else str(planned)
        done = DoneAct(planned, what, str(self.parts.setup), self.clock())
        self.note(f"{done.began_s - began_s:7.1f} s  {what}  ({done.setup})")
        self._well_since_s = None
        if planned.act is Act.KILL:
            driver.kill(process)
        elif planned.act is Act.STOP:
            driver.pause(process)
            self._stopped[process] = self.clock() + planned.lasts_s
        elif planned.act is Act.BROKER:
            driver.restart_broker()
        elif planned.act is Act.REDIS:
            driver.restart_redis()
        elif planned.act is Act.RESCALE:
            self.parts.rescale(planned.workers)
        else:
            self._resume(everything=True)
            self.parts.start(planned.setup)
        done.due = self.flow.rows
        self.done.append(done)

    def _resume(self, *, everything: bool = False) -> None:
        """Resume the stopped processes that are due."""
        for process, at_s in list(self._stopped.items()):
            if everything or at_s <= self.clock():
                self.parts.driver.resume(process)
                del self._stopped[process]

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _pause(self, seconds: float, end_s: float) -> None:
        until_s = min(self.clock() + seconds, end_s)
        while self.stuck is None and self.clock() < until_s:
            self._turn()

    def _until_well(self, deadline_s: float) -> None:
        """Wait until all is well, so that acts don't only strike services that are still starting."""
        while self.stuck is None and self._well_since_s is None:
            self._turn()
            if self.clock() > deadline_s:
                self.stuck = f"not all services were well within {self.rules.stall_s:.0f} s"

    def _turn(self) -> None:
        self.sleep(TEND_S)
        self.parts.driver.tend()
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
        """Sample the disk, and the memory at rest; delete rows whose results are out."""
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


_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class SoakOutcome:
    """A whole soak.

    about: facts about it, by name; arrivals: of results; rows: sent; wrong: tuples that differ from the definition
    growth: of memory, by setup; peaks: of memory, by process; stuck: the missing event, if any
    """

    about: Mapping[str, object]
    done: Sequence[DoneAct]
    arrivals: Sequence[Arrival]
    rows: int
    wrong: int
    differences: Sequence[str]
    growth: Mapping[str, Growth]
    peaks: Mapping[str, int]
    disk: DiskWatch
    stuck: str | None

    @property
    def answered(self) -> int:
        """Rows with a result."""
        return self.arrivals[-1].tuples if self.arrivals else 0

    @property
    def failures(self) -> list[str]:
        """All failures, in sentences."""
        found = [self.stuck] if self.stuck else []
        if self.answered < self.rows:
            found.append(f"{self.rows - self.answered:,} rows have no result")
        if self.wrong or self.differences:
            found.append(f"{self.wrong:,} tuples differ from the definition: {'; '.join(self.differences)}")
        for setup, growth in self.growth.items():
            if not growth.is_bounded:
                found.append(f"memory of {setup} grew by {growth.share:.1%}, more than {GROWTH_MAX:.0%}")
        for partition, peak in sorted(self.disk.beyond.items()):
            found.append(f"{partition} took {_mib(peak)} MiB of the disk, more than it may")
        return found

    @property
    def is_passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures


def markdown(outcome: SoakOutcome) -> str:
    """Acts, memory, disk and the verdict."""
    return "\n".join(
        [
            "; ".join(f"{name} {value}" for name, value in outcome.about.items()),
            "",
            "| act | times | recovered | recovered in, median s | slowest s | longest gap, ms |",
            "|---|---:|---:|---:|---:|---:|",
            *_acts(outcome),
            "",
            "| setup | samples of memory at rest | first tenth, MiB | most of a later tenth, MiB | growth |",
            "|---|---:|---:|---:|---:|",
            *(_memory(setup, growth) for setup, growth in outcome.growth.items()),
            "",
            *_peaks(outcome),
            *_disk(outcome.disk),
            "",
            f"{outcome.answered:,} of {outcome.rows:,} rows answered in order, once, under their keys, and every count "
            f"recomputed: {outcome.wrong:,} differ",
            "passed" if outcome.is_passed else "FAILED: " + "\n".join(outcome.failures),
        ]
    )


def _acts(outcome: SoakOutcome) -> Iterator[str]:
    for act in Act:
        of_kind = [done for done in outcome.done if done.planned.act is act]
        if not of_kind or not outcome.arrivals:
            continue
        found = [done.recovered_s(outcome.arrivals) for done in of_kind]
        times = [seconds for seconds in found if seconds is not None]
        gap_ms = max(done.gap_ms(outcome.arrivals) for done in of_kind)
        slowest = f"{percentile(times, 50):.1f} | {max(times):.1f}" if times else "- | -"
        yield f"| {act.about} | {len(of_kind)} | {len(times)} | {slowest} | {gap_ms:,.0f} |"


def _memory(setup: str, growth: Growth) -> str:
    if growth.share is None:
        return f"| {setup} | {growth.samples} | {_mib(growth.first_bytes)} | - | too few samples |"
    sizes = f"{_mib(growth.first_bytes)} | {_mib(growth.most_bytes)}"
    return f"| {setup} | {growth.samples} | {sizes} | {growth.share:+.1%} |"


def _peaks(outcome: SoakOutcome) -> Iterator[str]:
    if outcome.peaks:
        peaks = ", ".join(f"{name} {_mib(peak)}" for name, peak in sorted(outcome.peaks.items()))
        yield f"Most memory of a process at rest, MiB: {peaks}."


def _disk(disk: DiskWatch) -> Iterator[str]:
    if disk.totals:
        largest = sorted(disk.peaks.items(), key=lambda item: item[1], reverse=True)[:4]
        named = ", ".join(f"{name} {_mib(peak)}" for name, peak in largest)
        yield (
            f"Disk, MiB: {_mib(disk.totals[len(disk.totals) // 2])} at half time, {_mib(disk.totals[-1])} at the end, "
            f"at most {_mib(max(disk.totals))}; the largest partitions: {named}; beyond limits: {len(disk.beyond)}."
        )


def _mib(size: int) -> str:
    return f"{size / _MIB:,.0f}"
