"""A campaign: rows go in, faults happen, results come out, all at once; then everything is recomputed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from loadgen.chaos.driver import Driver, strike
from loadgen.chaos.plan import Fault
from loadgen.chaos.watcher import Watcher, divergences, messages_before, messages_sent, parsed
from loadgen.check.judging import ProbeSample
from loadgen.check.ordering import StreamRows
from loadgen.check.verdict import Verdict
from loadgen.load.load import Digest, Load
from loadgen.load.open_loop import OpenLoop, Sender
from loadgen.load.produce import ends_of
from spojoin.model import Query
from spojoin.ports.interfaces import Log

#: Faults under way at once: a long one, such as the broker's restart, doesn't delay the next.
FAULTS_AT_ONCE = 8


@dataclass(slots=True)
class Struck:
    """A fault that happened.

    began_s: seconds after the start; due: rows that were in when it was over
    recovered_s: from its beginning until all of these were answered; None while they aren't
    """

    fault: Fault
    began_s: float
    due: int = 0
    recovered_s: float | None = None

    @property
    def is_survived(self) -> bool:
        """Whether the services caught up with it."""
        return self.recovered_s is not None


@dataclass(frozen=True, slots=True)
class CampaignProgress:
    """How far a campaign is."""

    seconds: float
    rows: int
    out: int
    struck: Sequence[Struck]
    planned: int


@dataclass(frozen=True, slots=True)
class Rules:
    """stall_s: after this time without a result and without a fault under way the services count as stuck.

    sample: probes that are recomputed; default all; seed: chooses them
    """

    stall_s: float = 120.0
    sample: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class CampaignOutcome:
    """The outcome of a campaign."""

    struck: Sequence[Struck]
    planned: int
    verdict: Verdict
    rows: int
    out: int
    seconds: float

    @property
    def survived(self) -> int:
        """Faults that the services caught up with."""
        return sum(struck.is_survived for struck in self.struck)

    @property
    def divergences(self) -> int:
        """Rows that are not what the join's definition gives."""
        return divergences(self.verdict)

    @property
    def is_passed(self) -> bool:
        """All faults happened and were survived, and nothing differs."""
        return self.survived == self.planned and not self.divergences


@dataclass(slots=True)
class Campaign:
    """Everything that takes part in it. note: called with what happens; show: called repeatedly with the progress."""

    driver: Driver
    log: Log[bytes]
    new_sender: Callable[[], Sender]
    query: Query
    load: Load
    faults: Sequence[Fault]
    rules: Rules
    note: Callable[[str], None]
    show: Callable[[CampaignProgress], None]
    _struck: list[Struck] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> CampaignOutcome:
        """Run it to its end, however long that takes; raises what prevents a fault."""
        bounds = ends_of(self.log, self.load)
        topics = {stream.name: self.load.topic_of(stream.name) for stream in self.query.inputs}
        before = {name: list(messages_before(self.log, bounds, topic)) for name, topic in topics.items()}
        base = sum(_rows_of(parsed(before[stream.name], self.query, stream)) for stream in self.query.inputs)
        digests = {stream.name: Digest() for stream in self.load.workload.streams}
        watcher = Watcher(self.log, self.query, self.load)
        try:
            with OpenLoop(self.new_sender(), replace(self.load, digests=digests).packets()) as loop:
                self._follow(loop, watcher, base)
                rows, seconds = loop.rows, time.time() - loop.began_s
        finally:
            watcher.close()
        self.note(f"all faults are over; recomputing {_probes(self.rules, base + rows)} of {base + rows:,} rows")
        streams = []
        for stream, made in zip(self.query.inputs, self.load.workload.streams, strict=True):
            sent = messages_sent(self.load, digests[stream.name].rows, bounds, made)
            streams.append(parsed([*before[stream.name], *sent], self.query, stream))
        verdict = watcher.verdict(self.query, streams, ProbeSample(self.rules.sample, self.rules.seed))
        return CampaignOutcome(self._struck, len(self.faults), verdict, rows, watcher.out - base, seconds)

    # --- while it runs ------------------------------------------------------------------------------------------------

    def _follow(self, loop: OpenLoop, watcher: Watcher, base: int) -> None:
        """Until all rows are answered and all faults are over, or progress stops."""
        with self._striking() as pool:
            waiting, under_way = list(self.faults), list[Future[None]]()
            moved_s = time.monotonic()
            while waiting or under_way or not loop.is_done or watcher.out - base < loop.rows:
                self.driver.tend()
                loop.check()
                if watcher.read() or waiting or under_way or not loop.is_done:
                    moved_s = time.monotonic()
                elif time.monotonic() - moved_s > self.rules.stall_s:
                    self.note(f"stuck: no result for {self.rules.stall_s:.0f} s")
                    return
                seconds = time.time() - loop.began_s
                while waiting and waiting[0].at_s <= seconds:
                    under_way.append(pool.submit(self._strike, waiting.pop(0), loop))
                under_way = [future for future in under_way if not _is_over(future)]
                self._look_for_recovery(watcher.out - base, seconds)
                self.show(CampaignProgress(seconds, loop.rows, watcher.out - base, self._struck, len(self.faults)))
            self._look_for_recovery(watcher.out - base, time.time() - loop.began_s)

    @contextmanager
    def _striking(self) -> Iterator[ThreadPoolExecutor]:
        """However the block ends, no service stays paused."""
        with ThreadPoolExecutor(FAULTS_AT_ONCE, "fault") as pool:
            try:
                yield pool
            finally:
                self._stop.set()
                pool.shutdown(cancel_futures=True)

    def _strike(self, fault: Fault, loop: OpenLoop) -> None:
        struck = Struck(fault, time.time() - loop.began_s)
        self.note(str(replace(fault, at_s=struck.began_s)))
        strike(self.driver, fault, self._stop.wait)
        struck.due = loop.rows
        self._struck.append(struck)

    def _look_for_recovery(self, out: int, seconds: float) -> None:
        for struck in self._struck:
            if struck.recovered_s is None and out >= struck.due:
                struck.recovered_s = seconds - struck.began_s


def _is_over(future: Future[None]) -> bool:
    """Whether the fault is over; raises what it raised."""
    if future.done():
        future.result()
    return future.done()


def _rows_of(rows: StreamRows) -> int:
    return len(rows) + len(rows.reasons)


def _probes(rules: Rules, rows: int) -> str:
    return "all" if rules.sample is None or rules.sample >= rows else f"{rules.sample:,}"
