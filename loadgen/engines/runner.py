"""Runs an engine as a separate process on some processors until its budget is spent, and checks its totals."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadgen.engines import expected
from loadgen.engines.adapters import apart, java
from loadgen.engines.adapters.engine import write_job
from loadgen.engines.worker import PACKAGES
from loadgen.engines.workloads import MARKS, EngineWorkload
from loadgen.papers.methods.catalog import METHODS
from spojoin.errors import ConfigurationError
from spojoin.local.usage import usage_of

#: All engines, in the table's order.
ENGINES = (*METHODS, *PACKAGES, *apart.APART, *java.PROGRAMS)
#: The interval at which a silent process's memory is read.
LOOK_S = 0.2
#: An engine that has not reached two marks within its budget may run this many times as long.
PATIENCE = 4


@dataclass(frozen=True, slots=True)
class Mark:
    """The first `probes` probes had `total` matches, after s seconds and cpu_s seconds of processor time."""

    probes: int
    total: int
    s: float
    cpu_s: float


@dataclass(slots=True)
class EngineOutcome:
    """An engine's outcome on a workload. message: the reason for a missing figure, or the engine's own refusal."""

    engine: str
    workload: str
    window: int
    version: str = ""
    marks: list[Mark] = field(default_factory=list)
    peak_rss_bytes: int = 0
    fill_s: float = 0.0
    message: str = ""

    @property
    def measured(self) -> tuple[Mark, Mark] | None:
        """The last two marks; the probes before them were for warming up."""
        return None if len(self.marks) < 2 or self.message else (self.marks[-2], self.marks[-1])

    @property
    def cpu_us(self) -> float | None:
        """Processor time per tuple, in microseconds."""
        if self.measured is None:
            return None
        before, last = self.measured
        return 1e6 * (last.cpu_s - before.cpu_s) / (last.probes - before.probes)

    @property
    def tuples_per_second(self) -> float | None:
        """The rate by wall-clock time."""
        if self.measured is None:
            return None
        before, last = self.measured
        return (last.probes - before.probes) / (last.s - before.s)


@dataclass(frozen=True, slots=True)
class RunLimits:
    """budget_s: wall time for probes; fill_s: until the window is full, including the start; cpus: to run on."""

    budget_s: float
    fill_s: float
    cpus: frozenset[int]


class Runner:
    """Runs engines one after the other; jobs and rows are kept in one folder for the length of a run."""

    def __init__(self, limits: RunLimits, folder: Path, say: Callable[[str], None]) -> None:
        self._limits = limits
        self._folder = folder
        self._say = say
        self._totals: dict[str, Mapping[int, int]] = {}

    def run(self, engine: str, workload: EngineWorkload) -> EngineOutcome:
        """Measure one engine on one workload. Its failures are recorded in the outcome."""
        outcome = EngineOutcome(engine, workload.name, workload.window)
        try:
            command = self._command(engine, workload)
        except ConfigurationError as error:
            outcome.message = str(error)
            return outcome
        with tempfile.TemporaryFile() as errors:
            self._follow(command, outcome, errors)
            if not outcome.message and len(outcome.marks) < 2:
                errors.seek(0)
                outcome.message = _last_words(errors.read().decode(errors="replace"))
        self._check(outcome, workload)
        _check_times(outcome)
        return outcome

    def _command(self, engine: str, workload: EngineWorkload) -> list[str]:
        if engine in java.PROGRAMS or engine in apart.APART:
            started = java.command if engine in java.PROGRAMS else apart.command
            job = str(write_job(workload, self._folder))
            return [job if word == "{job}" else word for word in started(engine, self._say)]
        names = [workload.question.name, workload.variant.name, str(workload.window)]
        return [sys.executable, "-m", "loadgen.engines.worker", engine, *names]

    def _follow(self, command: Sequence[str], outcome: EngineOutcome, errors: Any) -> None:  # noqa: ANN401
        began = time.monotonic()
        with _pinned(self._limits.cpus):
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        with process:
            try:
                deadline = _Deadline(began + self._limits.fill_s)
                for line in _lines(process, outcome, deadline):
                    self._hear(line, outcome, deadline, began)
                    if outcome.message:
                        break
                outcome.message = outcome.message or self._why(process, outcome)
            finally:
                process.kill()

    def _hear(self, line: Mapping[str, Any], outcome: EngineOutcome, deadline: _Deadline, began: float) -> None:
        """Record a process's message and update its deadline."""
        if "refused" in line:
            outcome.message = f"refuses: {line['refused']}"
        elif "filled" in line:
            outcome.version, outcome.fill_s = str(line["version"]), time.monotonic() - began
            deadline.at = began + outcome.fill_s + self._limits.budget_s * PATIENCE
        elif "mark" in line:
            outcome.marks.append(Mark(line["mark"], line["total"], line["s"], line["cpu_s"]))
            if len(outcome.marks) >= 2:
                deadline.at = began + outcome.fill_s + self._limits.budget_s

    def _why(self, process: subprocess.Popen[bytes], outcome: EngineOutcome) -> str:
        """The reason for a missing figure, if it is time or memory."""
        if len(outcome.marks) >= 2:
            return ""
        status = process.poll()
        if status == -signal.SIGKILL:
            return "was killed: out of memory?"
        if status is not None:
            return ""
        if not outcome.version:
            return f"too slow: its window was not full after {self._limits.fill_s:.1f} s"
        reached = f"only {outcome.marks[0].probes} probes" if outcome.marks else "no mark"
        return f"too slow: came to {reached} in {self._limits.budget_s * PATIENCE:.1f} s, and two marks are needed"

    def _check(self, outcome: EngineOutcome, workload: EngineWorkload) -> None:
        name = expected.key(workload)
        if name not in self._totals:
            self._totals[name] = dict(zip(MARKS, expected.totals(workload), strict=False))
        # Marks beyond the published totals can't be checked, so they don't count.
        outcome.marks = [mark for mark in outcome.marks if mark.probes in self._totals[name]]
        for mark in outcome.marks:
            wanted = self._totals[name][mark.probes]
            if mark.total != wanted:
                outcome.message = f"WRONG: {mark.total:,} matches of {mark.probes:,} probes, expected {wanted:,}"
                return


def _check_times(outcome: EngineOutcome) -> None:
    """Drop times that don't grow: if starting a job outweighs its probes, more probes may seem no slower."""
    if outcome.measured is None:
        return
    before, last = outcome.measured
    if last.s <= before.s or last.cpu_s <= before.cpu_s:
        outcome.message = f"too few probes to tell: {last.probes:,} took no longer than {before.probes:,}"


@dataclass(slots=True)
class _Deadline:
    """at: by time.monotonic()."""

    at: float


@contextlib.contextmanager
def _pinned(cpus: frozenset[int]) -> Iterator[None]:
    """Processes started within the block run on these processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _lines(
    process: subprocess.Popen[bytes], outcome: EngineOutcome, deadline: _Deadline
) -> Iterator[Mapping[str, Any]]:
    """A process's messages as they come, until it ends or its time is up; other output is skipped."""
    assert process.stdout is not None, "it was started with a pipe"
    os.set_blocking(process.stdout.fileno(), False)
    waiting, rest = selectors.DefaultSelector(), b""
    waiting.register(process.stdout, selectors.EVENT_READ)
    while time.monotonic() <= deadline.at:
        used = usage_of(process.pid)
        outcome.peak_rss_bytes = max(outcome.peak_rss_bytes, used.peak_rss_bytes if used else 0)
        if not waiting.select(LOOK_S):
            continue
        read = process.stdout.read()
        if read == b"":
            process.wait()
            return
        *whole, rest = (rest + (read or b"")).split(b"\n")
        for line in whole:
            with contextlib.suppress(json.JSONDecodeError):
                said = json.loads(line)
                if isinstance(said, dict):
                    yield said


def _last_words(said: str) -> str:
    """The last line that an engine printed, which gives the reason of a failure."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or "Exception" in line]
    return f"failed: {(telling or lines or ['it said nothing'])[-1]}"
