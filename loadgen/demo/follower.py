"""Follows a query's output while it grows: how far it has come, how fast, and how late each tuple's result was."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spojoin.model import Output, Query
from spojoin.ports.interfaces import Log, LogPartition, LogRecord
from spojoin.protocol.topology import Topic, dead_letter_topic, topic_name
from spojoin.wire.chain import ResultSequence
from spojoin.wire.records import Result
from spojoin.wire.results import progress, result_from_message

POLL_S = 0.2
RECORDS_MAX = 1000


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
    """Reads a query's results and its refused rows in a thread of its own until it is closed.

    A record that a restart wrote again is passed over.
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
        """Begin; the topics must be there."""
        for source in (self._results, *self._letters):
            self._reader.open(source, 0)
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
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
        if not self._chain.takes(result.begin, progress(headers)):
            return
        last = self.trace.last
        tuples = last.tuples + result.end - result.begin
        self.trace.latencies_ms.append((record.timestamp_ms - self._produced_ms(result)).astype(np.float64))
        self.trace.marks.append(
            OutputMark(record.timestamp_ms, tuples, last.matches + self._matches(result), result.frame_id)
        )

    def _produced_ms(self, result: Result) -> NDArray[np.int64]:
        """When each answer's row was produced; of a row that closes the newest row of the frame in which it does."""
        if not self._query.asks:
            return np.repeat(result.produced_ms, result.produced_runs)[result.begin : result.end]
        newest = result.produced_ms.max(initial=0)
        return np.full(result.end - result.begin if newest else 0, newest)

    def _matches(self, result: Result) -> int:
        if self._query.output is Output.COUNT:
            return int(result.rows["matches"].to_numpy().sum())
        return 0 if self._query.output is Output.BITMAP else int(result.rows.num_rows)
