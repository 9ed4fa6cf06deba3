"""A campaign sends rows, injects faults and reads results at the same time, then recomputes everything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from loadgen.chaos.driver import Driver, strike
from loadgen.chaos.plan import Fault, FaultKind
from loadgen.chaos.watcher import Watcher, divergences, messages_before, messages_sent, parsed
from loadgen.check.judging import ProbeSample
from loadgen.check.ordering import StreamRows
from loadgen.check.verdict import Verdict
from loadgen.load.load import Digest, Load
from loadgen.load.open_loop import OpenLoop, Sender
from loadgen.load.produce import ends_of
from loadgen.load.progress import LINE_S, Every
from spojoin.model import Query
from spojoin.ports.interfaces import Log

#: Faults under way at once: a long one, for example the broker's restart, doesn't delay the next.
FAULTS_AT_ONCE = 8


@dataclass(slots=True)
class Struck:
    """A fault that happened.

    began_s: seconds after the start; due: rows sent by its end
    recovered_s: from its beginning until all due rows were answered; None before that
    """

    fault: Fault
    began_s: float
    due: int = 0
    recovered_s: float | None = None

    @property
    def is_survived(self) -> bool:
        """Whether the services recovered from it."""
        return self.recovered_s is not None


@dataclass(frozen=True, slots=True)
class CampaignProgress:
    """A campaign's progress."""

    seconds: float
    rows: int
    out: int
    struck: Sequence[Struck]
    planned: int


@dataclass(frozen=True, slots=True)
class Rules:
    """stall_s: after this time without a result and without a fault under way the services count as stuck.

    sample: the number of recomputed probes, all by default; seed: chooses them
    """

    stall_s: float = 120.0
    sample: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class CampaignOutcome:
    struck: Sequence[Struck]
    planned: int
    verdict: Verdict
    rows: int
    out: int
    seconds: float

    @property
    def survived(self) -> int:
        """The number of faults that the services recovered from."""
        return sum(struck.is_survived for struck in self.struck)

    @property
    def divergences(self) -> int:
        """The number of rows that differ from the join's definition."""
        return divergences(self.verdict)

    @property
    def is_passed(self) -> bool:
        """Whether the services survived all faults, and nothing differs."""
        return self.survived == self.planned and not self.divergences


@dataclass(slots=True)
class Campaign:
    """A campaign and its parts. note: called with each event; show: called repeatedly with the progress."""

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
        """Run to the end; raises the error that prevents a fault."""
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
        """Follow the results until all rows are answered and all faults are over, or progress stops."""
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
        """An executor for faults; at the end of the block, no service stays paused."""
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
    """Whether the fault is over; raises its exception."""
    if future.done():
        future.result()
    return future.done()


def _rows_of(rows: StreamRows) -> int:
    return len(rows) + len(rows.reasons)


def _probes(rules: Rules, rows: int) -> str:
    return "all" if rules.sample is None or rules.sample >= rows else f"{rules.sample:,}"


# --- the report -----------------------------------------------------------------------------------------------------


def as_json(outcome: CampaignOutcome, about: Mapping[str, object]) -> dict[str, object]:
    """The campaign as JSON."""
    return {
        **about,
        "faults_planned": outcome.planned,
        "faults": len(outcome.struck),
        "survived": outcome.survived,
        "divergences": outcome.divergences,
        "rows": outcome.rows,
        "answered_or_refused": outcome.out,
        "seconds": round(outcome.seconds, 1),
        "verdict": outcome.verdict.as_json(),
        "schedule": [
            {**asdict(s.fault), "began_s": _rounded(s.began_s), "recovered_s": _rounded(s.recovered_s)}
            for s in outcome.struck
        ],
    }


def write(outcome: CampaignOutcome, about: Mapping[str, object], folder: Path) -> Path:
    """Write chaos.json into `folder` and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "chaos.json"
    path.write_bytes(orjson.dumps(as_json(outcome, about), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return path


def table(outcome: CampaignOutcome, title: str) -> Table:
    """Faults by kind."""
    summary = f"{outcome.survived} of {outcome.planned} faults survived, divergences ({outcome.divergences})"
    shown = Table(title=f"{title}: {summary}", title_justify="left")
    shown.add_column("fault")
    for heading in ("times", "survived", "recovered in, median s", "slowest s"):
        shown.add_column(heading, justify="right")
    for kind in FaultKind:
        of_kind = [struck for struck in outcome.struck if struck.fault.kind is kind]
        if of_kind:
            shown.add_row(kind.about, *_cells(of_kind))
    return shown


def _cells(struck: list[Struck]) -> tuple[str, ...]:
    times = sorted(each.recovered_s for each in struck if each.recovered_s is not None)
    middle = f"{times[len(times) // 2]:.1f}" if times else "-"
    return str(len(struck)), str(len(times)), middle, f"{times[-1]:.1f}" if times else "-"


def checked(outcome: CampaignOutcome) -> str:
    """The sent and the checked rows, line by line."""
    verdict = outcome.verdict
    lines = [
        f"{outcome.rows:,} rows sent, {outcome.out:,} of them answered or refused, in {outcome.seconds:.0f} s",
        f"{verdict.probes_checked:,} probes with {verdict.matches:,} matches recomputed: completeness "
        f"{verdict.completeness:.6f}, false positives {verdict.false_positives:,}, duplicates {verdict.duplicates:,}, "
        f"out of order {verdict.misordered:,}, records written again {verdict.resent:,}",
    ]
    if verdict.output_sha256:
        lines.append(f"sha256 of the output {verdict.output_sha256}")
    if verdict.oracle_sha256:
        lines.append(f"sha256 of the definition {verdict.oracle_sha256}")
    if verdict.first_difference:
        lines.append(f"first difference: {verdict.first_difference}")
    return "\n".join(lines)


def progress_lines(console: Console) -> Callable[[CampaignProgress], None]:
    """A line every LINE_S."""
    every = Every(LINE_S)

    def show(progress: CampaignProgress) -> None:
        if not every():
            return
        survived = sum(each.is_survived for each in progress.struck)
        console.print(
            f"{progress.seconds:7.1f} s  rows in {progress.rows:,}, out {progress.out:,}, "
            f"faults {len(progress.struck)} of {progress.planned}, survived {survived}",
            highlight=False,
            soft_wrap=True,
        )

    return show


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
