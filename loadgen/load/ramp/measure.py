"""Measures one rate on running services: rows in by an open loop, results out by a tap, both clocks on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from loadgen.load.load import Arrivals, Load
from loadgen.load.open_loop import OpenLoop, Sender
from loadgen.load.ramp.step import LagPoint, Measured
from loadgen.load.tap import ResultsTap

#: Event-time order holds the last rows back while other partitions may have earlier ones, so the measurement ends this
#: much earlier.
TAIL_S = 1.0
#: The rate at which windows are filled, in rows a second.
FILL_RATE = 50_000.0
#: The interval at which the lag is measured.
LAG_S = 0.1
LAG_POINTS_MIN = 4


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The times of a tried rate: `settle_s` unmeasured, `measure_s` measured, then at most `drain_s` to catch up."""

    settle_s: float = 3.0
    measure_s: float = 10.0
    drain_s: float = 60.0


@dataclass(slots=True)
class Bench:
    """Running services under load. rows: of each stream, sent so far; show: called with the progress of a step."""

    load: Load
    tap: ResultsTap
    new_sender: Callable[[], Sender]
    plan: StepTimes
    tend: Callable[[], None] = lambda: None
    show: Callable[[float, float, float], None] = lambda _rate, _seconds, _lag: None
    rows: int = 0
    _lag: list[LagPoint] = field(default_factory=list)

    def measure(self, rate: float) -> Measured:
        plan, base = self.plan, self._out()
        load = self._load(rate)
        streams = len(load.workload.streams)
        self.tap.forget()
        self._lag = []
        with OpenLoop(self.new_sender(), load.packets()) as loop:
            self._follow(loop, load.arrivals, base)
            sent, seconds, behind_s = loop.rows, loop.seconds, loop.behind_s_max
            began_s = loop.began_s
        self.rows += sent // streams
        marks = self._lag
        is_drained = self._drain(base + sent, base)
        latencies_ms = self.tap.latencies_between(
            1000 * (began_s + plan.settle_s), 1000 * (began_s + plan.settle_s + plan.measure_s)
        )
        measured = [point for point in marks if plan.settle_s <= point.seconds <= plan.settle_s + plan.measure_s]
        return Measured(
            rate=rate,
            produced=sent / max(seconds, 1e-9),
            answered=_answered(measured, load.arrivals),
            lag=measured if len(measured) >= LAG_POINTS_MIN else marks,
            latencies_ms=latencies_ms,
            behind_s=behind_s,
            is_drained=is_drained,
        )

    def fill(self, rows: int) -> bool:
        """Send `rows` rows of each stream, fast, and wait for their results: then windows are full and code warm.

        Returns False if the services have produced nothing for `drain_s`.
        """
        load = replace(self.load, arrivals=Arrivals(FILL_RATE), first=self.load.first + self.rows, rows=rows)
        base, out = self._out(), -1
        with OpenLoop(self.new_sender(), load.packets()) as loop:
            while not loop.is_done:
                loop.wait(0.0)
                self.tend()
                self.tap.read()
            sent = loop.rows
        self.rows += rows
        while out < self._out() < base + sent:
            out = self._out()
            self._drain_some(base + sent, out)
        return self._out() >= base + sent

    def _drain_some(self, due: int, out: int) -> None:
        """Read until a result comes, for at most `drain_s`."""
        deadline = time.monotonic() + self.plan.drain_s
        while self._out() == out < due and time.monotonic() < deadline:
            self.tend()
            self.tap.read()

    def _load(self, rate: float) -> Load:
        arrivals = replace(self.load.arrivals, rate=rate)
        seconds = self.plan.settle_s + self.plan.measure_s + TAIL_S
        rows = max(1, int(arrivals.rows_due(seconds)) // len(self.load.workload.streams))
        return replace(self.load, arrivals=arrivals, first=self.load.first + self.rows, rows=rows)

    def _follow(self, loop: OpenLoop, arrivals: Arrivals, base: int) -> None:
        """Read results until the last row is sent, and note the lag."""
        while loop.ended_s is None and not loop.is_done:
            self.tend()
            self.tap.read()
            seconds = time.time() - loop.began_s
            if not self._lag or seconds - self._lag[-1].seconds >= LAG_S:
                lag = arrivals.rows_due(seconds) - (self._out() - base)
                self._lag.append(LagPoint(seconds, lag))
                self.show(arrivals.rate, seconds, lag)
        loop.wait(self.plan.drain_s)

    def _drain(self, due: int, base: int) -> bool:
        """Read until all rows are answered; returns whether they were, within `drain_s`."""
        deadline = time.monotonic() + self.plan.drain_s
        while self._out() < due and time.monotonic() < deadline:
            self.tend()
            self.tap.read()
        return self._out() >= due

    def _out(self) -> int:
        return self.tap.tuples + self.tap.refused


def _answered(lag: list[LagPoint], arrivals: Arrivals) -> float:
    """Rows answered per second between the first point and the last."""
    if len(lag) < 2:
        return 0.0
    out = [arrivals.rows_due(point.seconds) - point.rows for point in (lag[0], lag[-1])]
    return float(np.diff(out)[0]) / (lag[-1].seconds - lag[0].seconds)
