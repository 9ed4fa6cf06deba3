"""One tried rate: its measurements, and whether it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import NamedTuple, Protocol

import numpy as np

from spojoin.arrays import F64

#: A lag that grows by a smaller share of the rate is flat: within a step this can't be distinguished from noise.
LAG_GROWTH_MAX = 0.02
#: A lag that has grown by less than the rows of this time is also flat, since results come frame by frame.
LAG_NOISE_S = 0.1
#: If the producer is later than this, the step measures the producer more than the services.
BEHIND_S_MAX = 0.5


class LagPoint(NamedTuple):
    """Rows that were due and neither answered nor refused, `seconds` after the step's start."""

    seconds: float
    rows: float


@dataclass(frozen=True, slots=True)
class Step:
    """A rate and its measurements.

    rate, produced, answered: rows per second requested, sent, and answered or refused
    lag_growth: rows per second by which the lag grew; lag_rows: the mean lag
    latency_*: milliseconds from the time at which a row was due to the arrival of its result; None if none came
    verdict: the reason why the rate doesn't hold; empty if it holds
    """

    rate: float
    produced: float
    answered: float
    lag_rows: float
    lag_growth: float
    latency_ms_p50: float | None
    latency_ms_p90: float | None
    latency_ms_p99: float | None
    latency_ms_max: float | None
    tuples: int
    verdict: str

    @property
    def holds(self) -> bool:
        """Whether the rate can be sustained."""
        return not self.verdict

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "holds": self.holds}


@dataclass(frozen=True, slots=True)
class Measured:
    """The raw data of a step's measured part.

    lag: at least four points; latencies_ms: of each tuple that was due in it, float64 (n,)
    behind_s: the producer's largest delay; is_drained: whether all rows were answered in the end
    """

    rate: float
    produced: float
    answered: float
    lag: Sequence[LagPoint]
    latencies_ms: F64
    behind_s: float
    is_drained: bool


def judge(measured: Measured, p99_ms_max: float) -> Step:
    """Whether a rate holds: the producer held it, the lag is flat, p99 is within its bound."""
    growth = lag_growth(measured.lag)
    percentiles = _percentiles(measured.latencies_ms)
    p99 = percentiles[2]
    return Step(
        rate=measured.rate,
        produced=measured.produced,
        answered=measured.answered,
        lag_rows=float(np.mean([point.rows for point in measured.lag])),
        lag_growth=growth,
        latency_ms_p50=percentiles[0],
        latency_ms_p90=percentiles[1],
        latency_ms_p99=p99,
        latency_ms_max=percentiles[3],
        tuples=len(measured.latencies_ms),
        verdict=_verdict(measured, growth, p99, p99_ms_max),
    )


def lag_growth(lag: Sequence[LagPoint]) -> float:
    """Rows a second between the means of the first and the second half, so that a burst in each cancels out."""
    half = len(lag) // 2
    (early_s, early), (late_s, late) = (np.mean(part, axis=0) for part in (lag[:half], lag[half:]))
    return float((late - early) / (late_s - early_s))


def _verdict(measured: Measured, growth: float, p99: float | None, p99_ms_max: float) -> str:
    span_s = measured.lag[-1].seconds - measured.lag[0].seconds
    if measured.behind_s > BEHIND_S_MAX:
        return f"the load generator was {measured.behind_s:.1f} s late: it is the limit here, not the services"
    if growth > LAG_GROWTH_MAX * measured.rate and growth * span_s / 2 > LAG_NOISE_S * measured.rate:
        return f"lag grows by {growth:,.0f} rows/s"
    if not measured.is_drained:
        return "not all rows were answered"
    if p99 is None:
        return "no results"
    return f"p99 {p99:,.0f} ms is above {p99_ms_max:,.0f} ms" if p99 > p99_ms_max else ""


def _percentiles(latencies_ms: F64) -> tuple[float | None, ...]:
    if not len(latencies_ms):
        return None, None, None, None
    return tuple(round(float(value), 1) for value in np.percentile(latencies_ms, (50, 90, 99, 100)))


class Tried(Protocol):
    """A rate that was tried."""

    @property
    def rate(self) -> float:
        """Rows a second."""
        ...

    @property
    def holds(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Search:
    """From `start` by `factor` up to `most`, or down to `least`; ends when the limit is known to `precision`."""

    start: float
    factor: float = 1.5
    least: float = 100.0
    most: float = 5_000_000.0
    precision: float = 0.1

    def next_rate(self, tried: Sequence[Tried]) -> float | None:
        """The next rate, rounded to three digits; None once the limit is known."""
        found = self._next(tried)
        return None if found is None else float(f"{found:.3g}")

    def _next(self, tried: Sequence[Tried]) -> float | None:
        if not tried:
            return self.start
        failed = min((step.rate for step in tried if not step.holds), default=None)
        held = highest_that_holds(tried)
        if failed is None:
            top = max(step.rate for step in tried)
            return min(top * self.factor, self.most) if top < self.most else None
        if held is None:
            return max(failed / self.factor, self.least) if failed > self.least else None
        return sqrt(held * failed) if failed / held > 1 + self.precision else None


def highest_that_holds(tried: Sequence[Tried]) -> float | None:
    """The highest rate that holds below the lowest that doesn't."""
    failed = min((step.rate for step in tried if not step.holds), default=float("inf"))
    return max((step.rate for step in tried if step.holds and step.rate < failed), default=None)
