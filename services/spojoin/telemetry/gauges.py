"""What frames and machines report of themselves, as metrics."""

from __future__ import annotations

import numpy as np

from spojoin.model import Direction, Query
from spojoin.protocol.guidance import hot_flags
from spojoin.protocol.machine import Machine
from spojoin.protocol.parts import first_reached, found_within, lower_bounds
from spojoin.telemetry.metrics import Metrics
from spojoin.wire.records import I64, Frame, HotKeys


class MachineGauges:
    """Reads a machine; the counters of a new one, which begin at 0, continue those of the one before."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._machine: Machine | None = None
        self._seen: dict[str, float] = {}

    def read(self, machine: Machine) -> None:
        """Set and count what `machine` reports."""
        if machine is not self._machine:
            self._machine, self._seen = machine, {}
        self._metrics.state_tuples.set(machine.state_tuples())
        self._metrics.state_bytes.set(machine.state_bytes())
        for name, value in machine.counters().items():
            self._metrics.of_machine[name].inc(value - self._seen.get(name, 0.0))
            self._seen[name] = value


class WindowGauges:
    """Windows and their tuples, by each frame."""

    def __init__(self, query: Query, metrics: Metrics) -> None:
        self._query = query
        self._metrics = metrics
        #: each target once: a self join searches one window in both directions
        self._searches = list({direction.target: direction for direction in query.directions}.values())

    def saw(self, frame: Frame) -> None:
        """Set how full the windows are at the frame's end."""
        for direction in self._searches:
            piece, lower = frame.slices[direction.target], frame.probes(direction.probe).lower
            begin = int(lower[-1]) if len(lower) else first_reached(frame, direction.target)
            end = piece.first_index + len(piece)
            name = self._query.stream_names[direction.target]
            self._metrics.window_tuples.labels(name).set(end - begin)
            self._metrics.window_fill.labels(name).set(self._fill(begin, end))

    def wrote(self, frame: Frame, hot_keys: HotKeys | None = None) -> None:
        """Count what a new frame holds; hot_keys: the latest that a predictor found."""
        windows = (_window_tuples(frame, direction) for direction in self._searches)
        self._metrics.candidates.inc(sum(int(tuples.sum()) for tuples in windows))
        if hot_keys is not None:
            self._metrics.hot_tuples.inc(int(np.count_nonzero(hot_flags(hot_keys, frame.count, frame.slices))))

    def _fill(self, begin: int, end: int) -> float:
        if self._query.window.is_time:
            return float(begin > 0)
        if self._query.has_table:
            return 1.0
        return min(1.0, (end - begin) / self._query.window.length)


def _window_tuples(frame: Frame, direction: Direction) -> I64:
    """How many tuples of its target each probe's window holds, int64 (m,)."""
    probes, stored = frame.probes(direction.probe), frame.slices[direction.target]
    within = found_within(frame, direction)
    return np.asarray(stored.first_index + within - lower_bounds(probes, 0, len(probes)), np.int64)
