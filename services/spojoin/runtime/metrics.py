"""What a service counts, in the Prometheus format."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    ProcessCollector,
)
from prometheus_client.metrics_core import HistogramMetricFamily
from prometheus_client.registry import Collector

from spojoin.wire.records import I64, U32

_STEP_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
#: upper bounds in milliseconds, each about a quarter above the one before, so that quantiles come out within that
_LATENCY_BOUNDS_MS = np.unique(np.round(np.geomspace(1, 60_000, 50))).astype(np.int64)


class LatencyHistogram(Collector):
    """Time from produce to result, counted by whole arrays."""

    def __init__(self) -> None:
        self._counts = np.zeros(len(_LATENCY_BOUNDS_MS) + 1, np.int64)
        self._sum_ms = 0

    def observe(self, latencies_ms: I64, runs: U32) -> None:
        """Count `runs[i]` tuples with `latencies_ms[i]`."""
        places = np.searchsorted(_LATENCY_BOUNDS_MS, latencies_ms)
        np.add.at(self._counts, places, runs.astype(np.int64))
        self._sum_ms += int(latencies_ms @ runs.astype(np.int64))

    def quantile_ms(self, share: float) -> float:
        """An upper bound of the latency that `share` of the tuples stayed within; NaN before the first."""
        total = int(self._counts.sum())
        if not total:
            return float("nan")
        place = int(np.searchsorted(np.cumsum(self._counts), share * total))
        return float(_LATENCY_BOUNDS_MS[min(place, len(_LATENCY_BOUNDS_MS) - 1)])

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The cumulative buckets, in seconds."""
        bounds = [*(str(bound / 1000) for bound in _LATENCY_BOUNDS_MS), "+Inf"]
        buckets = list(zip(bounds, np.cumsum(self._counts).astype(float).tolist(), strict=True))
        family = HistogramMetricFamily(
            "spojoin_result_latency_seconds", "Time from a tuple's production to its result being readable."
        )
        family.add_metric([], buckets, sum_value=self._sum_ms / 1000)
        yield family


class Traffic:
    """Records and bytes by topic; looking up a label costs more than counting, so it is done once a topic."""

    def __init__(self, records: Counter, size: Counter) -> None:
        self._records = records
        self._size = size
        self._children: dict[str, tuple[Counter, Counter]] = {}

    def count(self, topic: str, size_bytes: int, records: int = 1) -> None:
        """Count records with so many bytes together."""
        children = self._children.get(topic)
        if children is None:
            children = self._children[topic] = (self._records.labels(topic), self._size.labels(topic))
        children[0].inc(records)
        children[1].inc(size_bytes)


class Metrics:
    """All metrics of one service, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.read = Traffic(
            self._counter("spojoin_records_read", "Records taken from a topic.", "topic"),
            self._counter("spojoin_read_bytes", "Bytes taken from a topic.", "topic"),
        )
        self.written = Traffic(
            self._counter("spojoin_records_written", "Records appended to a topic.", "topic"),
            self._counter("spojoin_written_bytes", "Bytes appended to a topic.", "topic"),
        )
        self.tuples = self._counter("spojoin_tuples", "Tuples put into frames (router) or answered (sink).")
        self.matches = self._counter("spojoin_matches", "Matches in results (sink).")
        self.dead_letters = self._counter("spojoin_dead_letters", "Rows refused, by reason (router).", "reason")
        self.retries = self._counter("spojoin_retries", "Machines thrown away and rebuilt, by what failed.", "error")
        self.fenced = self._counter("spojoin_fenced", "Times a newer instance took over.")
        self.store_failures = self._counter("spojoin_store_failures", "Operations that the store did not answer.")
        self.lag = self._gauge("spojoin_input_lag_records", "Offsets not yet read of an input.", "topic", "partition")
        self.waiting = self._gauge("spojoin_waiting_records", "Records read but not yet taken by the machine.")
        self.head_frame = self._gauge("spojoin_head_frame", "Frame id after the latest one seen.")
        self.watermark_frame = self._gauge("spojoin_watermark_frame", "Results are out before this frame.")
        self.credits = self._gauge("spojoin_credits_frames", "Frames that may still be written ahead (router).")
        self.caught_up = self._gauge("spojoin_caught_up", "1 once everything present at the start was read.")
        self.step = Histogram(
            "spojoin_step_seconds",
            "Time of a loop's step, waiting for records left out.",
            buckets=_STEP_BUCKETS,
            registry=self.registry,
        )
        self.latency = LatencyHistogram()
        self.registry.register(self.latency)

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(name, help_text, labels, registry=self.registry)

    def _gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        return Gauge(name, help_text, labels, registry=self.registry)


def value_of(metric: Counter | Gauge) -> float:
    """The sum over a metric's labels."""
    return float(sum(s.value for family in metric.collect() for s in family.samples if not s.name.endswith("_created")))
