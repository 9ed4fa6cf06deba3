"""What PPOIJ's figures have in common: its interval join, and its three patterns.

KP has one worker for each key, DP all workers for every key, HP as many as a key's frequency calls for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.layout_cost import SIMULATED, Costs, LayoutFeed, MeasuredLayout, rate_series
from loadgen.papers.model import Panel
from loadgen.papers.run import FigureRun

RATE = 500
WORKERS, SKEW, UNIFORM = 8, 0.35, 0.5
BATCH = 32
#: Tuples from which HP learns how frequent keys are; the windows are filled by those that follow.
CALIBRATION = 2_000
KP, DP = MeasuredLayout("KP", "kp"), MeasuredLayout("DP", "dp")
HP = MeasuredLayout("HP", "hp", options={"calibration": str(CALIBRATION)})
PATTERNS = (KP, DP, HP)
#: Frames after the windows are full.
FRAMES = 60
HOW = (
    f"{SIMULATED}Two streams of {RATE} tuples/s each; equal keys, event times within the interval, and one inequality "
    "that every candidate is compared by, since the paper's operator visits all candidates. "
)
WHY = (
    "The paper's replicas take tuples one by one from queues, where a copy of a tuple costs as much as the tuple. "
    "Here a worker reads every frame of the log anyway, and a copy costs one search in the worker's table."
)


def self_similar(skew: float, keys: int, rows: int, seed: int) -> NDArray[np.int64]:
    """Keys below `keys`, int64 (rows,): a share `skew` of them has 1 - `skew` of the tuples, recursively."""
    drawn = np.random.default_rng(seed).random(rows)
    ranks: NDArray[np.int64] = (keys * drawn ** (np.log(skew) / np.log(1 - skew))).astype(np.int64)
    return np.minimum(ranks, np.int64(keys - 1))


class IntervalFeed(NamedTuple):
    """An interval join: its distinct keys and their skew, its width in seconds, and the tuples in a frame."""

    keys: int
    skew: float
    seconds: int
    batch: int = BATCH

    def feed(self) -> LayoutFeed:
        """The join's two streams."""
        rows = RATE * self.seconds + max(self.batch * FRAMES, 4_096) + 4_096 + CALIBRATION
        columns = [self._columns(rows, seed) for seed in (1, 2)]
        half = self.batch // 2
        return LayoutFeed(_text(self.seconds), columns, (half, half), 2 * RATE * self.seconds + CALIBRATION)

    def _columns(self, rows: int, seed: int) -> dict[str, NDArray[np.float64] | NDArray[np.int64]]:
        return {
            "a": self_similar(self.skew, self.keys, rows, seed),
            "b": np.random.default_rng(9 + seed).random(rows),
            "ts": np.arange(rows, dtype=np.int64) * 1_000 // RATE,
        }

    def by_keys(self, keys: float) -> LayoutFeed:
        """The join with another number of keys."""
        return self._replace(keys=int(keys)).feed()

    def by_skew(self, skew: float) -> LayoutFeed:
        """The join with another skew."""
        return self._replace(skew=skew).feed()

    def by_batch(self, batch: float) -> LayoutFeed:
        """The join with other frames."""
        return self._replace(batch=int(batch)).feed()

    def always(self) -> Callable[[float], LayoutFeed]:
        """The same join at every x."""
        made = self.feed()
        return lambda _: made


def _text(seconds: int) -> str:
    return f"""\
name: figure
streams:
  base:
    schema: {{a: long, b: double, ts: timestamp}}
    time: ts
  probe:
    schema: {{a: long, b: double, ts: timestamp}}
    time: ts
sql: |
  SELECT * FROM base AS l JOIN probe AS r
  ON l.a = r.a AND l.b < r.b AND r.ts BETWEEN l.ts - INTERVAL '{seconds} s' AND l.ts + INTERVAL '{seconds} s'
"""


def intervals(run: FigureRun) -> tuple[int, int]:
    """The two intervals that most figures have, in seconds."""
    return run.pick((10, 30), (4, 8))


def rates(found: Costs, title: str, x: str, *, log_x: bool = False) -> Panel:
    """Throughput, a curve for each label."""
    return Panel(title, x, "tuples/s", rate_series(found), log_x, log_y=True)
