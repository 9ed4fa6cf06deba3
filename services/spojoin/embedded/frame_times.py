"""How long frames take from the log to their last result, in one process."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator

import numpy as np

from spojoin.protocol.machine import Action, Emit
from spojoin.wire.records import Part

#: The number of frames remembered: figures are of the latest.
FRAMES_MAX = 65_536


class FrameTimes:
    """For each frame, the time until its results are out and what the slowest worker spent on it.

    All workers take turns in one process, so the first is the wait here. The second is processor time: the wait for the
    search if every worker had its own core; of several threads that share a search, the one that leads it.
    """

    def __init__(self) -> None:
        self.answered = 0
        self._began: dict[int, float] = {}
        self._seconds: deque[float] = deque(maxlen=FRAMES_MAX)
        self._slowest: deque[float] = deque(maxlen=FRAMES_MAX)
        #: By frame under way, what each of its workers has spent on it.
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

        A worker may be behind the log, so a part says which frame it was made for.
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
