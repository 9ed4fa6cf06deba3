"""The cost of a layout: the CPU time that its slowest worker spends on each frame.

The workers take turns in one process, and the time of each is measured separately: with a core for every worker, a
frame would take as long as the slowest of them. Router, sink and network add no time; messages are counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.papers.figure import FigureRun, LeftOut, Series
from loadgen.papers.layouts.accounts import Accounts, FrameTimes
from loadgen.papers.layouts.costs import imbalance
from spojoin.embedded.engine import Engine
from spojoin.errors import SpoJoinError
from spojoin.evaluation.choices import check, layout, method
from spojoin.model import DEFAULT_METHOD, Query
from spojoin.query.load import parse_query
from spojoin.roles.router.config import UNLIMITED, RouterConfig

FRAME_TUPLES = 512
#: Frames are larger while windows are filled: small ones would take most of the time.
FILL_TUPLES = 4_096
#: Fewer frames show nothing about balance.
FRAMES_MIN = 20
#: A batch and three frames must fit into the mutable part, so that a larger batch would limit the frames.
BATCH_TUPLES = 8_192
SIMULATED = (
    "Workers are simulated: they take turns in one process, and a frame counts as the time that the slowest of them "
    "spends on it, as if each had its own core; no network, no queues. "
)
Load = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class MeasuredLayout:
    """A layout, and the method in its workers. label: its name in figures."""

    label: str
    layout: str
    method: str = DEFAULT_METHOD
    method_options: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LayoutFeed:
    """A query's text and the tuples that it reads.

    columns: by stream and column name, in order of arrival
    turns: tuples of each stream in a frame; fill: tuples of all streams until the windows are full
    """

    text: str
    columns: Sequence[Mapping[str, NDArray[np.float64] | NDArray[np.int64]]]
    turns: Sequence[int]
    fill: int


@dataclass(frozen=True, slots=True)
class LayoutCost:
    """The measurement on full windows.

    us: per tuple, from the median frame of the slowest worker; p50_ms, p99_ms, max_ms: per frame, of the slowest worker
    tuples: the number of measured ones; loads: of each worker meanwhile; error: the reason for a missing measurement
    """

    us: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0
    tuples: int = 0
    matches: int = 0
    loads: Sequence[Load] = ()
    error: str = ""

    @property
    def rate(self) -> float:
        """Tuples per second."""
        return 1e6 / self.us if self.us else 0.0

    def total(self, name: str) -> float:
        """The sum of a load over all workers."""
        return sum(load[name] for load in self.loads)

    def imbalance(self, name: str) -> float:
        """The highest load of a worker divided by the mean of all."""
        return imbalance([load[name] for load in self.loads]) if self.loads else 1.0

    def deviation(self, name: str) -> float:
        """Standard deviation over the workers, as a share of their mean."""
        values = np.array([load[name] for load in self.loads])
        return float(values.std() / values.mean()) if len(values) and values.mean() else 0.0


class LayoutRun:
    """A layout's engine, driven frame by frame."""

    def __init__(self, measured: MeasuredLayout, feed: LayoutFeed, workers: int) -> None:
        self._feed = feed
        # Large enough that only `flush` ends a frame.
        frame_tuples = max(sum(feed.turns), FILL_TUPLES)
        sizes: dict[str, Any] = {"frame_tuples": frame_tuples, "batch_tuples": BATCH_TUPLES, "handover_frames": 1}
        self.engine = Engine(
            query_of(measured, feed.text, workers),
            RouterConfig("figures", workers, **sizes, credits_frames=UNLIMITED),
            observe=Accounts,
        )
        self._at = [0] * len(feed.columns)

    @property
    def has_more(self) -> bool:
        """Whether the columns hold another frame."""
        return all(
            at + turn <= len(next(iter(columns.values())))
            for at, turn, columns in zip(self._at, self._feed.turns, self._feed.columns, strict=True)
        )

    def fill(self, tuples: int) -> None:
        """Feed at least this many tuples of all streams, in large frames."""
        frames = -(-tuples // sum(self._feed.turns))
        at_once = max(FILL_TUPLES // sum(self._feed.turns), 1)
        for first in range(0, frames, at_once):
            if self.has_more:
                self.frame([count * min(at_once, frames - first) for count in self._feed.turns])

    def frame(self, turns: Sequence[int] | None = None) -> int:
        """Feed `turns` tuples of each stream, by default a frame's; returns the total number."""
        taken = turns or self._feed.turns
        for stream, (columns, count) in enumerate(zip(self._feed.columns, taken, strict=True)):
            rows = slice(self._at[stream], self._at[stream] + count)
            for _ in self.engine.feed(stream, pa.record_batch({name: each[rows] for name, each in columns.items()})):
                pass
            self._at[stream] += count
        for _ in self.engine.flush():
            pass
        return sum(taken)

    def loads(self) -> list[Load]:
        """The loads of each worker since the beginning."""
        loads = self.engine.layout_measures()["per_worker"]
        assert isinstance(loads, list)
        return [dict(each) for each in loads]


def query_of(measured: MeasuredLayout, text: str, workers: int) -> Query:
    """The query of this text, with the layout and its method. Raises SpoJoinError if the layout refuses the query."""
    choice = layout(measured.layout, {**measured.options, "workers": str(workers)})
    query = replace(parse_query(text), layout=choice)
    check(query)
    if measured.method == DEFAULT_METHOD:
        return query
    return replace(query, method=method(measured.method, measured.method_options))


def cost(measured: MeasuredLayout, feed: LayoutFeed, workers: int, seconds: float) -> LayoutCost:
    """Fill the windows, then measure frames for this long; a layout that refuses the query gives the reason."""
    try:
        return _cost(LayoutRun(measured, feed, workers), feed, seconds)
    except SpoJoinError as error:
        return LayoutCost(error=str(error))


def _cost(made: LayoutRun, feed: LayoutFeed, seconds: float) -> LayoutCost:
    made.fill(feed.fill)
    accounts = made.engine.observer
    assert isinstance(accounts, Accounts)
    accounts.frame_times = FrameTimes()
    before, matches, tuples, began = made.loads(), made.engine.matches, 0, time.perf_counter()
    least = FRAMES_MIN * sum(feed.turns)
    while made.has_more and (tuples < least or time.perf_counter() - began < seconds):
        tuples += made.frame()
    loads = [
        {name: value - first.get(name, 0.0) for name, value in last.items()}
        for first, last in zip(before, made.loads(), strict=True)
    ]
    slowest = accounts.frame_times.figures()["slowest_worker_ms"]
    assert isinstance(slowest, dict)
    us = 1e3 * slowest["p50"] / sum(feed.turns)
    found = made.engine.matches - matches
    return LayoutCost(us, slowest["p50"], slowest["p99"], slowest["max"], tuples, found, loads)


Costs = Mapping[tuple[str, float], LayoutCost]


def costs(
    run: FigureRun,
    xs: Sequence[float],
    layouts: Sequence[MeasuredLayout],
    feed: Callable[[float], LayoutFeed],
    workers: Callable[[float], int],
) -> Costs:
    """The cost of every layout at every x, by (label, x); layouts that refuse are reported and left out."""
    found: dict[tuple[str, float], LayoutCost] = {}
    made: dict[float, LayoutFeed] = {}
    for x, label in run.each([(x, each.label) for x in xs for each in layouts]):
        if x not in made:
            made = {x: feed(x)}
        one = next(each for each in layouts if each.label == label)
        found[label, x] = point = cost(one, made[x], workers(x), run.point_s)
        if point.error:
            run.left_out.append(LeftOut(f"{label} at {x:,}", point.error))
        run.say(f"      {label:28} {x:>12,} {point.error or f'{point.us:14,.2f} us'}")
    return found


def cost_series(found: Costs, value: Callable[[LayoutCost], float]) -> list[Series]:
    """One series for each label, with `value` of its costs; labels without costs are left out."""
    series = []
    for label in dict.fromkeys(label for label, _ in found):
        points = {x: each for (name, x), each in found.items() if name == label and each.tuples}
        if points:
            series.append(Series(label, list(points), [value(each) for each in points.values()]))
    return series


def rate_series(found: Costs) -> list[Series]:
    """One series for each label: its tuples per second."""
    return cost_series(found, lambda each: each.rate)


def same(workers: int) -> Callable[[float], int]:
    """The same number of workers at every x."""
    return lambda _: workers
