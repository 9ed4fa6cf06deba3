"""Follows a query's output while it grows: its position and rate, and the latency of each tuple's result."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spojoin.model import Output, Query
from spojoin.ports.interfaces import Log, LogPartition, LogRecord
from spojoin.protocol.topology import Topic, dead_letter_topic, topic_name
from spojoin.wire.records import Result
from spojoin.wire.results import ResultSequence, progress, result_from_message

POLL_S = 0.2
RECORDS_MAX = 1000
#: Points of a plotted line.
POINTS = 400


@dataclass(frozen=True, slots=True)
class OutputMark:
    """The output after one result record: when it was produced, tuples and matches so far, its frame."""

    produced_ms: int
    tuples: int
    matches: int
    frame_id: int


@dataclass(slots=True)
class OutputTrace:
    """All marks, and the latency of every tuple: float64 milliseconds (n,), by seq, in pieces."""

    marks: list[OutputMark] = field(default_factory=list)
    latencies_ms: list[NDArray[np.float64]] = field(default_factory=list)
    refused: int = 0

    @property
    def last(self) -> OutputMark:
        """The latest mark."""
        return self.marks[-1] if self.marks else OutputMark(0, 0, 0, 0)

    def latency_ms(self, first: int = 0) -> NDArray[np.float64]:
        """Latencies of the tuples from seq `first` on."""
        return np.concatenate([np.zeros(0), *self.latencies_ms])[first:]


class Follower:
    """Reads a query's results and refused rows in its own thread until it is closed; the demo has one sink.

    It skips records that a restart wrote again.
    """

    def __init__(self, log: Log[bytes], query: Query, inputs: Iterable[str]) -> None:
        """inputs: the query's input topics."""
        self.trace = OutputTrace()
        self.error: Exception | None = None
        self._query = query
        self._results = LogPartition(topic_name(query.name, Topic.RESULTS), 0)
        self._letters = [LogPartition(dead_letter_topic(topic), 0) for topic in inputs]
        self._reader = log.reader()
        self._chain = ResultSequence()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follower", daemon=True)

    def start(self) -> None:
        """Begin; the topics must exist."""
        for source in (self._results, *self._letters):
            self._reader.open(source, 0)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._reader.close()

    def _follow(self) -> None:
        try:
            while not self._ended.is_set():
                self._take(self._reader.poll(RECORDS_MAX, POLL_S))
        except Exception as error:  # noqa: BLE001  (the thread that shows progress raises it)
            self.error = error

    def _take(self, records: Sequence[LogRecord[bytes]]) -> None:
        for record in records:
            if record.input == self._results:
                self._take_result(record)
            else:
                self.trace.refused += 1

    def _take_result(self, record: LogRecord[bytes]) -> None:
        headers = dict(record.headers)
        result = result_from_message(headers, record.value)
        if not self._chain.accepts(result.begin, progress(headers)):
            return
        last = self.trace.last
        tuples = last.tuples + result.end - result.begin
        self.trace.latencies_ms.append((record.timestamp_ms - self._produced_ms(result)).astype(np.float64))
        self.trace.marks.append(
            OutputMark(record.timestamp_ms, tuples, last.matches + self._matches(result), result.frame_id)
        )

    def _produced_ms(self, result: Result) -> NDArray[np.int64]:
        """When each answer's row was produced; for an answer on close, the newest row of the frame that closes it."""
        if not self._query.asks:
            return np.repeat(result.produced_ms, result.produced_runs)[result.begin : result.end]
        newest = result.produced_ms.max(initial=0)
        return np.full(result.end - result.begin if newest else 0, newest)

    def _matches(self, result: Result) -> int:
        if self._query.results.output is Output.COUNT:
            return int(result.rows["matches"].to_numpy().sum())
        return 0 if self._query.results.output is Output.BITMAP else int(result.rows.num_rows)


def rate(trace: OutputTrace, first: int, end: int) -> float | None:
    """Tuples per second between the results of tuples `first` and `end`, by the results' own times."""
    marks = [mark for mark in trace.marks if first <= mark.tuples <= end]
    if len(marks) < 2 or marks[-1].produced_ms <= marks[0].produced_ms:
        return None
    return 1000.0 * (marks[-1].tuples - marks[0].tuples) / (marks[-1].produced_ms - marks[0].produced_ms)


def latency(trace: OutputTrace, first: int) -> dict[str, float | None]:
    """Percentiles of the time from a tuple's input message to its result, for tuples from `first` on."""
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
    """Latencies in milliseconds, and the share of tuples that are no later."""
    values = np.sort(trace.latency_ms(first))
    if not len(values):
        return [], []
    shares = np.linspace(0.0, 1.0, POINTS)
    return np.quantile(values, shares).round(1).tolist(), (100 * shares).round(2).tolist()
