"""Layouts: what a frame costs the slowest of n workers, all of which take turns in one process.

Each worker's CPU time on each frame is measured by itself; with a core for each worker, a frame would take as long as
the slowest of them. Router and sink are not counted, nor is the network: a worker's messages are, as numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.papers.model import LeftOut, Panel, Series
from loadgen.papers.run import FigureRun
from spojoin.embedded.engine import UNLIMITED, Engine
from spojoin.embedded.frame_times import FrameTimes
from spojoin.errors import SpoJoinError
from spojoin.model import DEFAULT_METHOD, Query
from spojoin.published.layouts.catalog import check_key, layout
from spojoin.published.layouts.load import imbalance
from spojoin.published.methods.catalog import method
from spojoin.query.load import parse_query
from spojoin.roles.router.config import RouterConfig

FRAME_TUPLES = 512
#: While windows are filled, frames are larger: many small ones would take most of the time.
FILL_TUPLES = 4_096
#: Fewer frames tell nothing of balance.
FRAMES_LEAST = 20
#: A frame of more tuples leaves the mutable part too small a batch.
BATCH_TUPLES = 8_192
SIMULATED = (
    "Workers are simulated: they take turns in one process, and a frame counts as much time as the "
    "slowest of them spends "
    "on it, as if each had a core of its own; no network, no queues."
)
Load = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Laid:
    """A layout with a method in its workers. label: its name in figures."""

    label: str
    layout: str
    method: str = DEFAULT_METHOD
    method_options: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fed:
    """What a layout is fed.

    columns: by stream and column name, in order of arrival, as long as is needed
    turns: how many tuples of each stream come in a frame; fill: tuples of all streams until the windows are full
    """

    text: str
    columns: Sequence[Mapping[str, NDArray[np.float64] | NDArray[np.int64]]]
    turns: Sequence[int]
    fill: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What was measured on full windows.

    us: a tuple, by the median frame of the slowest worker; p50_ms, p99_ms, max_ms: a frame, of the slowest worker
    tuples: measured; loads: of each worker, while measured; error: why nothing was
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
        """Tuples a second."""
        return 1e6 / self.us if self.us else 0.0

    def total(self, name: str) -> float:
        """A load of all workers together."""
        return sum(load[name] for load in self.loads)

    def imbalance(self, name: str) -> float:
        """The most of a worker to the mean of all."""
        return imbalance([load[name] for load in self.loads]) if self.loads else 1.0

    def deviation(self, name: str) -> float:
        """Standard deviation over the workers, as a share of their mean."""
        values = np.array([load[name] for load in self.loads])
        return float(values.std() / values.mean()) if len(values) and values.mean() else 0.0


class Steps:
    """A layout's engine, frame by frame."""

    def __init__(self, laid: Laid, fed: Fed, workers: int) -> None:
        self._fed = fed
        # A frame ends when all that was fed is flushed.
        frame_tuples = max(sum(fed.turns), FILL_TUPLES)
        sizes = {"frame_tuples": frame_tuples, "batch_tuples": BATCH_TUPLES, "handover_frames": 1}
        self.engine = Engine(
            asked(laid, fed.text, workers), RouterConfig("figures", workers, **sizes, credits_frames=UNLIMITED)
        )
        self._at = [0] * len(fed.columns)

    @property
    def has_more(self) -> bool:
        """Whether another frame is there."""
        return all(
            at + turn <= len(next(iter(columns.values())))
            for at, turn, columns in zip(self._at, self._fed.turns, self._fed.columns, strict=True)
        )

    def fill(self, tuples: int) -> None:
        """Feed so many tuples of all streams, or a few more, in large frames."""
        frames = -(-tuples // sum(self._fed.turns))
        at_once = max(FILL_TUPLES // sum(self._fed.turns), 1)
        for first in range(0, frames, at_once):
            if self.has_more:
                self.frame([count * min(at_once, frames - first) for count in self._fed.turns])

    def frame(self, turns: Sequence[int] | None = None) -> int:
        """Feed so many tuples of each stream, by default a frame; how many in all."""
        taken = turns or self._fed.turns
        for stream, (columns, count) in enumerate(zip(self._fed.columns, taken, strict=True)):
            rows = slice(self._at[stream], self._at[stream] + count)
            for _ in self.engine.feed(stream, pa.record_batch({name: each[rows] for name, each in columns.items()})):
                pass
            self._at[stream] += count
        for _ in self.engine.flush():
            pass
        return sum(taken)

    def loads(self) -> list[Load]:
        """Of each worker since the beginning."""
        told = self.engine.layout_measures()["per_worker"]
        assert isinstance(told, list)
        return [dict(each) for each in told]


def asked(laid: Laid, text: str, workers: int) -> Query:
    """The query by a layout and a method."""
    choice = layout(laid.layout, {**laid.options, "workers": str(workers)})
    query = replace(parse_query(text), layout=choice)
    check_key(query, choice)
    return query if laid.method == DEFAULT_METHOD else replace(query, method=method(laid.method, laid.method_options))


def cost(laid: Laid, fed: Fed, workers: int, seconds: float) -> Cost:
    """Fill the windows, then measure frames for so long; a layout that refuses the query says why."""
    try:
        return _cost(Steps(laid, fed, workers), fed, seconds)
    except SpoJoinError as error:
        return Cost(error=str(error))


def _cost(steps: Steps, fed: Fed, seconds: float) -> Cost:
    steps.fill(fed.fill)
    steps.engine.frame_times = FrameTimes()
    before, matches, tuples, began = steps.loads(), steps.engine.matches, 0, time.perf_counter()
    least = FRAMES_LEAST * sum(fed.turns)
    while steps.has_more and (tuples < least or time.perf_counter() - began < seconds):
        tuples += steps.frame()
    loads = [
        {name: value - first.get(name, 0.0) for name, value in last.items()}
        for first, last in zip(before, steps.loads(), strict=True)
    ]
    slowest = steps.engine.frame_times.figures()["slowest_worker_ms"]
    assert isinstance(slowest, dict)
    us = 1e3 * slowest["p50"] / sum(fed.turns)
    return Cost(us, slowest["p50"], slowest["p99"], slowest["max"], tuples, steps.engine.matches - matches, loads)


Costs = Mapping[tuple[str, float], Cost]


def costs(
    run: FigureRun,
    xs: Sequence[float],
    laid: Sequence[Laid],
    fed: Callable[[float], Fed],
    workers: Callable[[float], int],
) -> Costs:
    """Every layout at every x; those that refuse are told, and left out."""
    found: dict[tuple[str, float], Cost] = {}
    made: dict[float, Fed] = {}
    for x, label in run.each([(x, each.label) for x in xs for each in laid]):
        if x not in made:
            made = {x: fed(x)}
        one = next(each for each in laid if each.label == label)
        found[label, x] = point = cost(one, made[x], workers(x), run.point_s)
        if point.error:
            run.left_out.append(LeftOut(f"{label} at {x:,}", point.error))
        run.say(f"      {label:28} {x:>12,} {point.error or f'{point.us:14,.2f} us'}")
    return found


def panel(
    found: Costs, title: str, x: str, y: str, value: Callable[[Cost], float], *, log_x: bool = False, log_y: bool = True
) -> Panel:
    """A curve a label."""
    return Panel(title, x, y, list(_series(found, value)), log_x, log_y)


def _series(found: Costs, value: Callable[[Cost], float]) -> Iterator[Series]:
    for label in dict.fromkeys(label for label, _ in found):
        points = {x: each for (name, x), each in found.items() if name == label and each.tuples}
        if points:
            yield Series(label, list(points), [value(each) for each in points.values()])
