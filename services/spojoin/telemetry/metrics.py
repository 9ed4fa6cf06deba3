"""The metrics of a service, of its frames and of its machine, in the Prometheus format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Metric,
    ProcessCollector,
)
from prometheus_client.metrics_core import HistogramMetricFamily
from prometheus_client.registry import Collector

from spojoin.arrays import I64, U32
from spojoin.model import Direction, Query
from spojoin.ports.interfaces import BrokerTraffic
from spojoin.protocol.frame_evaluation import first_reached, found_within, hot_flags, lower_bounds
from spojoin.protocol.machine import Machine
from spojoin.protocol.topology import Role
from spojoin.suggest import listed
from spojoin.telemetry.hop_times import HOPS_HELP, HOPS_NAME, HopTimes, RecentCounts
from spojoin.version import __version__
from spojoin.wire.records import Frame, HotKeys

#: labels of every metric of a service, with their meanings
SERVICE_LABELS = {
    "query": "the query's name",
    "role": f"{listed(Role)}; of roles that share a process all with a plus between them, or together",
    "service_name": "the role, and its number where there are several: pojoin-1",
}
#: label values that are exposed before the first event: `increase` doesn't see the event that creates a counter
DEAD_LETTER_REASONS = (
    "delete",
    "late",
    "malformed",
    "missing-field",
    "nan",
    "null",
    "overflow",
    "schema",
    "time",
    "type",
    "unit",
)
RETRY_ERRORS = ("AmbiguousAppend", "LogUnavailable")
SCALE_STEPS = ("ask", "scale", "replace", "event")
KAFKA_ERRORS = ("_ALL_BROKERS_DOWN", "_TRANSPORT")

_STEP_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
#: upper bounds in milliseconds, up to an hour; each is about a quarter above the last, as precise as quantiles
_LATENCY_BOUNDS_MS = np.unique(np.round(np.geomspace(1, 3_600_000, 68))).astype(np.int64)


class Described(NamedTuple):
    """A metric as it is exposed; `labels`: those in addition to the service's."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help_text: str


LATENCY = Described(
    "spojoin_result_latency_seconds",
    "histogram",
    (),
    "Time from a tuple's production to its result being readable (sink).",
)
HOPS = Described(HOPS_NAME, "histogram", ("hop",), HOPS_HELP)


class ServiceRegistry(CollectorRegistry):
    """Adds a service's labels to all samples when they are collected, so that they cost nothing while counting."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        super().__init__()
        self._labels = dict(labels)

    def collect(self) -> Iterator[Metric]:
        """All metrics, without the creation times of counters."""
        for family in super().collect():
            family.samples = [
                sample._replace(labels={**sample.labels, **self._labels})
                for sample in family.samples
                if not sample.name.endswith("_created")
            ]
            yield family


class KafkaTraffic(NamedTuple):
    """Counters of what a service's clients exchange with brokers."""

    requests: Counter
    sent_bytes: Counter
    received_bytes: Counter

    def add(self, traffic: BrokerTraffic) -> None:
        """Count a report of a client."""
        for name, number in traffic.requests.items():
            self.requests.labels(name).inc(number)
        self.sent_bytes.inc(traffic.sent_bytes)
        self.received_bytes.inc(traffic.received_bytes)


class LatencyHistogram(Collector):
    """The time from produce to result, counted by whole arrays; quantiles are over the last minute."""

    def __init__(self) -> None:
        self._counts = np.zeros(len(_LATENCY_BOUNDS_MS) + 1, np.int64)
        self._recent = RecentCounts(len(self._counts))
        self._sum_ms = 0

    def observe(self, latencies_ms: I64, runs: U32, now_ms: float) -> None:
        """Count `runs[i]` tuples with `latencies_ms[i]`; `now_ms` never runs backwards."""
        added = np.zeros_like(self._counts)
        np.add.at(added, np.searchsorted(_LATENCY_BOUNDS_MS, latencies_ms), runs.astype(np.int64))
        self._counts += added
        self._recent.add(added, now_ms)
        self._sum_ms += int(latencies_ms @ runs.astype(np.int64))

    def recent_ms(self, share: float, now_ms: float) -> float:
        """An upper bound of the latency of `share` of the last minute's tuples; NaN if there were none."""
        counts = self._recent.total(now_ms)
        total = int(counts.sum())
        if not total:
            return float("nan")
        place = int(np.searchsorted(np.cumsum(counts), share * total))
        return float(_LATENCY_BOUNDS_MS[min(place, len(_LATENCY_BOUNDS_MS) - 1)])

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The cumulative buckets, in seconds."""
        bounds = [*(str(bound / 1000) for bound in _LATENCY_BOUNDS_MS), "+Inf"]
        buckets = list(zip(bounds, np.cumsum(self._counts).astype(float).tolist(), strict=True))
        family = HistogramMetricFamily(LATENCY.name, LATENCY.help_text)
        family.add_metric([], buckets, sum_value=self._sum_ms / 1000)
        yield family


class TopicTraffic:
    """Records and bytes by topic; labels are looked up once per topic, since this costs more than counting."""

    def __init__(self, records: Counter, size: Counter) -> None:
        self._records = records
        self._size = size
        self._children: dict[str, tuple[Counter, Counter]] = {}

    def count(self, topic: str, size_bytes: int, records: int = 1) -> None:
        """Count records of `size_bytes` in total."""
        children = self._children.get(topic)
        if children is None:
            children = self._children[topic] = (self._records.labels(topic), self._size.labels(topic))
        children[0].inc(records)
        children[1].inc(size_bytes)


class Metrics:
    """All metrics of one service, in a separate registry; each has the `labels`, and `described` lists all."""

    def __init__(self, labels: Mapping[str, str] | None = None) -> None:
        self.registry = ServiceRegistry(labels or {})
        self.described: list[Described] = []
        self._replay_began_ms = 0.0
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._add_traffic()
        self._add_progress()
        self._add_windows()
        self._add_machines()
        self._add_troubles()
        self._add_completeness()
        self._add_scale()
        self._gauge("spojoin_build_info", "1; the version that runs.", "version").labels(__version__).set(1)

    def replay_began(self, now_ms: float) -> None:
        """A machine starts empty and reads the log."""
        self.replays.inc()
        self.caught_up.set(0)
        self._replay_began_ms = now_ms

    def replay_ended(self, now_ms: float) -> None:
        """The machine has caught up."""
        self.caught_up.set(1)
        self.replay_seconds.set((now_ms - self._replay_began_ms) / 1000)

    def _add_traffic(self) -> None:
        self.read = TopicTraffic(
            self._counter("spojoin_records_read", "Records taken from a topic.", "topic"),
            self._counter("spojoin_read_bytes", "Bytes taken from a topic.", "topic"),
        )
        self.written = TopicTraffic(
            self._counter("spojoin_records_written", "Records appended to a topic.", "topic"),
            self._counter("spojoin_written_bytes", "Bytes appended to a topic.", "topic"),
        )
        self.tuples = self._counter("spojoin_tuples", "Tuples put into frames (router).")
        self.answered_tuples = self._counter("spojoin_answered_tuples", "Tuples answered (sink).")
        self.matches = self._counter("spojoin_matches", "Matches in results (sink).")
        self.step = self._step()
        self.latency = LatencyHistogram()
        self.hops = HopTimes()
        for collector, described in ((self.latency, LATENCY), (self.hops, HOPS)):
            self.registry.register(collector)
            self.described.append(described)

    def _add_progress(self) -> None:
        self.lag = self._gauge("spojoin_input_lag_records", "Offsets not yet read of an input.", "topic", "partition")
        self.waiting = self._gauge("spojoin_waiting_records", "Records read but not yet taken by the machine.")
        self.head_frame = self._gauge("spojoin_head_frames", "Frames up to the latest one seen: its id plus one.")
        self.result_frame = self._gauge(
            "spojoin_result_frames", "Frames whose results are all out, as this service knows it (not predictor)."
        )
        self.unanswered_age = self._gauge(
            "spojoin_oldest_unanswered_seconds",
            "Age of the oldest row known to have no result yet, 0 where none waits (router: inputs included; sink).",
        )
        self.open_rows = self._gauge(
            "spojoin_open_tuples", "Left rows that wait for later partners before they are answered (router, sink)."
        )
        self.open_age = self._gauge(
            "spojoin_oldest_open_seconds",
            "Age of the oldest row that waits for later partners, 0 where none does.",
        )
        self.held = self._gauge(
            "spojoin_event_time_held_seconds",
            "For how long rows have waited for an input that brings nothing, or for a table's first row, by that input "
            "(router). No sample where none waits.",
            "stream",
            "partition",
        )
        self.workers = self._gauge(
            "spojoin_layout_workers", "PO-Join workers that answer the latest frame seen: its worker count."
        )
        self.rows = self._gauge(
            "spojoin_grid_rows", "Rows of workers, which share the frames, at the latest frame seen."
        )
        self.columns = self._gauge(
            "spojoin_grid_columns", "Columns of workers, which share the window, at the latest frame seen."
        )
        self.credits = self._gauge("spojoin_credits_frames", "Frames that may still be written ahead (router).")
        self.epochs = self._gauge("spojoin_log_epochs", "Claims to the log so far: the current epoch plus one.")
        self.caught_up = self._gauge("spojoin_caught_up", "1 once everything present at the start was read.")
        self.replays = self._counter(
            "spojoin_replays", "Times that state was rebuilt from the log, the one at the start included."
        )
        self.replay_seconds = self._gauge("spojoin_replay_seconds", "How long the last rebuild took.")

    def _add_windows(self) -> None:
        self.window_tuples = self._gauge(
            "spojoin_window_tuples",
            "Tuples of a stream in the window at the end of the latest frame (router).",
            "stream",
        )
        self.window_fill = self._gauge(
            "spojoin_window_fill_ratio",
            "Tuples in the window / its length (router); for windows of time 1 once a tuple has left, else 0.",
            "stream",
        )
        self.candidates = self._counter(
            "spojoin_candidate_pairs",
            "Pairs of a tuple and an earlier one in its window (router); matches are a share of them.",
        )
        self.selectivity = self._gauge(
            "spojoin_predicate_selectivity_ratio",
            "Share of pairs that satisfy a predicate, in a sample of 256 recent tuples a stream (predictor).",
            "predicate",
        )
        self.hot_keys = self._gauge(
            "spojoin_hot_keys", "Values that the latest plan calls hot (predictor).", "stream", "column"
        )
        self.hot_tuples = self._counter("spojoin_hot_tuples", "Tuples put into frames with a hot value (router).")

    def _add_machines(self) -> None:
        self.state_tuples = self._gauge("spojoin_state_tuples", "Tuples held in memory.")
        self.state_bytes = self._gauge("spojoin_state_bytes", "Bytes of the indexes held (pojoin).")
        #: by the machines' names for them
        self.of_machine = {
            "comparisons": self._counter(
                "spojoin_compared_pairs", "Pairs of a tuple and a stored one that a worker answered for (pojoin)."
            ),
            "stand_in_frames": self._counter(
                "spojoin_stand_in_frames", "Frames answered in place of a worker of another row (pojoin)."
            ),
            "probes": self._counter("spojoin_searched_probes", "Tuples for which a worker has searched (pojoin)."),
            "hot_probes": self._counter(
                "spojoin_hot_probes",
                "Of the searched probes, those of hot keys, which every column by key is asked for (pojoin).",
            ),
            "merges": self._counter("spojoin_index_merges", "Nodes made by merging or splitting others (pojoin)."),
            "merge_seconds": self._counter(
                "spojoin_index_merge_seconds", "Time spent on merging and splitting nodes (pojoin)."
            ),
            "builds": self._counter(
                "spojoin_index_builds", "Search structures built: wavelet matrices, bitmaps, ranks (pojoin)."
            ),
            "build_seconds": self._counter(
                "spojoin_index_build_seconds", "Time spent on building search structures (pojoin)."
            ),
            "pairs_without_value": self._counter(
                "spojoin_pairs_without_value",
                "Pairs for which an expression of both sides failed, so that it counts as NULL (sink).",
            ),
        }

    def _add_troubles(self) -> None:
        self.dead_letters = self._counter("spojoin_dead_letters", "Rows refused, by reason (router).", "reason")
        self.retries = self._counter("spojoin_retries", "Machines thrown away and rebuilt, by what failed.", "error")
        self.accepted = self._gauge(
            "spojoin_query_accepted",
            "1 if the query that the service was given is served, or will be; 0 where it was refused, so that the one "
            "that was served before goes on, or the service waits for its name.",
        )
        self.accepted.set(1)
        self.fenced = self._counter("spojoin_fenced", "Times a newer instance took over.")
        self.store_failures = self._counter("spojoin_store_errors", "Operations that Redis did not answer.")
        self.kafka_errors = self._counter(
            "spojoin_kafka_errors", "What the Kafka client reports, by librdkafka's name (not predictor).", "error"
        )
        self.kafka_traffic = KafkaTraffic(
            self._counter(
                "spojoin_kafka_requests",
                "Requests of a service's readers and writers to Kafka, by Kafka's name (not predictor).",
                "request",
            ),
            self._counter("spojoin_kafka_sent_bytes", "Bytes that its readers and writers sent (not predictor)."),
            self._counter("spojoin_kafka_received_bytes", "Bytes that its readers and writers got (not predictor)."),
        )
        for counter, values in (
            (self.dead_letters, DEAD_LETTER_REASONS),
            (self.retries, RETRY_ERRORS),
            (self.kafka_errors, KAFKA_ERRORS),
        ):
            for value in values:
                counter.labels(value)

    def _add_completeness(self) -> None:
        """NaN until the first check."""
        self.completeness = self._gauge(
            "spojoin_completeness_ratio", "Right result rows / rows expected, by the last check (sink)."
        )
        self.exact = self._gauge(
            "spojoin_results_exact",
            "1 if the last check found nothing missing, wrong, doubled or out of order, else 0 (sink).",
        )
        self.checked = self._gauge(
            "spojoin_completeness_check_timestamp_seconds", "When the last check was made (sink)."
        )
        for gauge in (self.completeness, self.exact, self.checked):
            gauge.set(float("nan"))

    def _add_scale(self) -> None:
        """Add the controller's metrics, and the worker count, which every process knows."""
        self.needed = self._gauge(
            "spojoin_needed_instances",
            "How many instances should run of a service that results need, as this process knows; of PO-Join workers "
            "once it has read how many there are.",
            "needed",
        )
        self.scale_wanted = self._gauge(
            "spojoin_scale_wanted_workers", "PO-Join workers that the cluster should run (controller)."
        )
        self.scale_ready = self._gauge("spojoin_scale_ready_workers", "PO-Join workers that are ready (controller).")
        self.scale_requested = self._gauge(
            "spojoin_scale_layout_workers", "The worker count requested last (controller)."
        )
        self.scale_steps = self._counter(
            "spojoin_scale_steps",
            "Worker counts requested, numbers of replicas set, pods replaced, events reported (controller).",
            "kind",
        )
        for kind in SCALE_STEPS:
            self.scale_steps.labels(kind)

    def _step(self) -> Histogram:
        about = "Time of a loop's step, waiting for records left out (not predictor)."
        self.described.append(Described("spojoin_step_seconds", "histogram", (), about))
        return Histogram("spojoin_step_seconds", about, buckets=_STEP_BUCKETS, registry=self.registry)

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        self.described.append(Described(f"{name}_total", "counter", labels, help_text))
        return Counter(name, help_text, labels, registry=self.registry)

    def _gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        self.described.append(Described(name, "gauge", labels, help_text))
        return Gauge(name, help_text, labels, registry=self.registry)


def value_of(metric: Counter | Gauge) -> float:
    """The sum over a metric's labels."""
    return float(sum(s.value for family in metric.collect() for s in family.samples if not s.name.endswith("_created")))


class MachineGauges:
    """Reads a machine's figures; a new machine's counters, which begin at 0, continue those of the machine before."""

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
    """Sets the gauges of windows and their tuples with each frame."""

    def __init__(self, query: Query, metrics: Metrics) -> None:
        self._query = query
        self._metrics = metrics
        #: one direction per target, since a self join searches one window in both directions
        self._searches = list({direction.target: direction for direction in query.directions}.values())

    def saw(self, frame: Frame) -> None:
        """Set how full the windows are at the frame's end."""
        for direction in self._searches:
            piece, lower = frame.slices[direction.target], frame.probes(direction.probe).lower
            begin = int(lower[-1]) if len(lower) else first_reached(frame, direction.target)
            end = piece.first_index + len(piece)
            name = self._query.stream_names[direction.target]
            self._metrics.window_tuples.labels(name).set(end - begin)
            self._metrics.window_fill.labels(name).set(self._query.window.fill(begin, end))

    def wrote(self, frame: Frame, hot_keys: HotKeys | None = None) -> None:
        """Count what a new frame holds; hot_keys: the latest that a predictor found."""
        windows = (_window_tuples(frame, direction) for direction in self._searches)
        self._metrics.candidates.inc(sum(int(tuples.sum()) for tuples in windows))
        if hot_keys is not None:
            self._metrics.hot_tuples.inc(int(np.count_nonzero(hot_flags(hot_keys, frame.count, frame.slices))))


def _window_tuples(frame: Frame, direction: Direction) -> I64:
    """How many tuples of its target each probe's window holds, int64 (m,)."""
    probes, stored = frame.probes(direction.probe), frame.slices[direction.target]
    within = found_within(frame, direction)
    return np.asarray(stored.first_index + within - lower_bounds(probes, 0, len(probes)), np.int64)
