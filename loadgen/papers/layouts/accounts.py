"""Counts a layout's costs record by record, and times frames from the log to their last result."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from loadgen.papers.layouts.costs import Loads, Traffic, WorkDone, measures
from loadgen.papers.layouts.own_loads import BatchLoads, MethodLoads
from spojoin.evaluation.interface import EvaluationMachines, RecordObserver
from spojoin.model import DEFAULT_LAYOUT, DEFAULT_METHOD, Query
from spojoin.protocol.machine import Action, Emit, WindowMachine
from spojoin.protocol.topology import Topic
from spojoin.wire.records import Batch, Frame, Part, Record, Result

if TYPE_CHECKING:
    from loadgen.papers.layouts.machine import Workers

#: The number of frames remembered: figures are of the latest.
FRAMES_MAX = 65_536


class FrameTimes:
    """For each frame, the time until its results are out, and the slowest worker's time on it.

    All workers take turns in one process, so the first is the wait here. The second is processor time: the wait for the
    search if every worker had its own core; of several threads that share a search, the one that leads it.
    """

    def __init__(self) -> None:
        self.answered = 0
        self._began: dict[int, float] = {}
        self._seconds: deque[float] = deque(maxlen=FRAMES_MAX)
        self._slowest: deque[float] = deque(maxlen=FRAMES_MAX)
        #: By frame under way, each worker's time on it.
        self._spent: dict[int, dict[object, float]] = {}

    def begin(self, frame_id: int) -> None:
        """A frame of the log is read."""
        self._began[frame_id] = time.perf_counter()

    def end(self, frame_id: int, tuples: int, *, is_last: bool) -> None:
        """Results of `tuples` more of its tuples are out."""
        self.answered += tuples
        if is_last and frame_id in self._began:
            self._seconds.append(time.perf_counter() - self._began.pop(frame_id))
            self._slowest.append(max(self._spent.pop(frame_id, {}).values(), default=0.0))

    def worker(self, actions: Iterator[Action]) -> Iterator[Action]:
        """A worker's actions; counts the time to make the parts of a frame, not to carry them out.

        A worker may be behind the log, so a part names its frame.
        """
        worker, began = object(), time.thread_time()
        for action in actions:
            if isinstance(action, Emit) and isinstance(action.record, Part):
                spent = self._spent.setdefault(action.record.frame_id, {})
                spent[worker] = spent.get(worker, 0.0) + time.thread_time() - began
            yield action
            began = time.thread_time()

    def figures(self) -> dict[str, object]:
        """Milliseconds per frame: p50, p99 and max, of all workers in turn and of the slowest."""
        return {"frame_ms": _quantiles(self._seconds), "slowest_worker_ms": _quantiles(self._slowest)}


def _quantiles(seconds: deque[float]) -> dict[str, float]:
    if not seconds:
        return {"p50": 0.0, "p99": 0.0, "max": 0.0}
    p50, p99, most = np.quantile(1e3 * np.array(seconds), (0.5, 0.99, 1.0)).tolist()
    return {"p50": round(p50, 3), "p99": round(p99, 3), "max": round(most, 3)}


class Accounts(RecordObserver):
    """Follows the records of one query's evaluation."""

    def __init__(self, query: Query, machines: EvaluationMachines) -> None:
        self.frame_times = FrameTimes()
        self._loads = _loads_of(query, machines.searching)
        self._traffic = Traffic(query)

    def written(self, topic: Topic, record: Record) -> None:
        """Count the records that pass to another machine."""
        self._traffic.note(topic, record)
        if isinstance(record, Batch):
            self._loads.note(record)

    def begun(self, record: Record) -> None:
        """Time a frame from here on."""
        if isinstance(record, Frame):
            self.frame_times.begin(record.frame_id)

    def read(self, record: Record) -> None:
        """Count a record's effect on the workers."""
        self._loads.note(record)

    def answered(self, result: Result) -> None:
        """Time a frame up to here."""
        self.frame_times.end(result.frame_id, result.end - result.begin, is_last=result.is_last)

    def search(self, actions: Iterator[Action]) -> Iterator[Action]:
        """Time a worker's actions."""
        return self.frame_times.worker(actions)

    def measures(self, tuples: int, readers: Callable[[Topic], int]) -> dict[str, object]:
        """Latency a frame, the share of answered tuples, each worker's load, the mutable part's, traffic by topic."""
        loads, mutable = self._loads.loads(), self._loads.mutable_part()
        return {
            "workers": len(loads),
            "completeness": self.frame_times.answered / tuples if tuples else 1.0,
            **self.frame_times.figures(),
            **measures(loads),
            **({"mutable": mutable} if mutable else {}),
            "topics": {
                topic.value: {**passed, "readers": readers(topic)} for topic, passed in self._traffic.figures().items()
            },
        }


def _loads_of(query: Query, searching: Sequence[WindowMachine]) -> Loads:
    if query.layout.name != DEFAULT_LAYOUT:
        return _SelfCounted(cast("Workers", searching))
    return BatchLoads(query, searching) if query.method.name == DEFAULT_METHOD else MethodLoads(query, searching)


class _SelfCounted(Loads):
    """The loads of workers that count their own."""

    def __init__(self, machines: Workers) -> None:
        self._machines = machines

    def loads(self) -> list[WorkDone]:
        return [load for machine in self._machines for load in machine.loads()]
