"""From a trace to figures."""

from __future__ import annotations

import numpy as np

from loadgen.demo.follower import OutputMark, OutputTrace

#: Points of a plotted line.
POINTS = 400


def rate(trace: OutputTrace, first: int, end: int) -> float | None:
    """Tuples a second from the result of tuple `first` to that of tuple `end`, by the results' own times."""
    marks = [mark for mark in trace.marks if first <= mark.tuples <= end]
    if len(marks) < 2 or marks[-1].produced_ms <= marks[0].produced_ms:
        return None
    return 1000.0 * (marks[-1].tuples - marks[0].tuples) / (marks[-1].produced_ms - marks[0].produced_ms)


def latency(trace: OutputTrace, first: int) -> dict[str, float | None]:
    """Percentiles of the time from a tuple's input message to its result, of tuples from `first` on."""
    values = trace.latency_ms(first)
    names = {"latency_ms_p50": 50, "latency_ms_p90": 90, "latency_ms_p99": 99, "latency_ms_max": 100}
    if not len(values):
        return dict.fromkeys(names)
    return {name: round(float(np.percentile(values, percent)), 1) for name, percent in names.items()}


def timeline(trace: OutputTrace) -> list[OutputMark]:
    """At most POINTS marks, spread evenly."""
    step = max(1, len(trace.marks) // POINTS)
    return [*trace.marks[::step], *trace.marks[-1:]]


def latency_curve(trace: OutputTrace, first: int) -> tuple[list[float], list[float]]:
    """Latency in milliseconds against the share of tuples that is not later."""
    values = np.sort(trace.latency_ms(first))
    if not len(values):
        return [], []
    shares = np.linspace(0.0, 1.0, POINTS)
    return np.quantile(values, shares).round(1).tolist(), (100 * shares).round(2).tolist()
