"""Latency at a steady rate, computed from the measured time of each frame: one server, first come, first served."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadgen.papers.model import Panel, Series
from loadgen.papers.sweep import SweepTable

F64 = NDArray[np.float64]
PERCENTS = (1, 5, 10, 25, 50, 75, 90, 95, 99)
#: The arrival rate, as a share of what the slowest method sustains.
LOAD = 0.5


def waited(service_s: F64, every_s: float) -> F64:
    """Seconds from the arrival of each frame to its end, float64 (n,); one frame arrives every `every_s`.

    Lindley's recursion in closed form: a frame ends at the maximum, over arrivals so far, of arrival plus work since.
    """
    work = np.cumsum(service_s)
    arrivals = np.arange(len(service_s)) * every_s
    begun = np.maximum.accumulate(arrivals - (work - service_s))
    return begun + work - arrivals


def _latencies(table: SweepTable) -> dict[str, F64]:
    points = {label: point for (label, _), point in table.points.items() if len(point.seconds)}
    every = max((float(np.mean(point.seconds)) for point in points.values()), default=0.0) / LOAD
    return {label: waited(point.seconds, every) for label, point in points.items()}


def cdf_panel(title: str, table: SweepTable, frame: int) -> Panel:
    """The cumulative distribution of the latency of frames, in milliseconds; the table has a single x."""
    series = [
        Series(label, [float(v) for v in np.percentile(waits, PERCENTS) * 1e3], [float(p) for p in PERCENTS])
        for label, waits in _latencies(table).items()
    ]
    return Panel(title, f"ms from arrival to result, frames of {frame}", "% of frames", series, log_x=True)


def percentile_ratios(table: SweepTable, above: str, below: str, percent: float) -> list[float]:
    """The latency percentile of `above` divided by that of `below`: one number, or none."""
    found = _latencies(table)
    if not {above, below} <= found.keys():
        return []
    return [float(np.percentile(found[above], percent) / np.percentile(found[below], percent))]
