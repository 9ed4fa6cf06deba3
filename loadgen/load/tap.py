"""Reads a query's results like a consumer, and notes the number of answered tuples and their latencies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from spojoin.arrays import F64, I64
from spojoin.ports.interfaces import LogPartition, LogReader, LogRecord
from spojoin.wire.results import ResultSequence, progress, result_from_message

RECORDS_MAX = 1_000
POLL_S = 0.1
#: After this time without a result the services count as stopped.
STALL_S = 120.0
#: One result in this many is kept for comparison with a scan.
SAMPLE_EVERY = 64


class ResultsTap:
    """The results of `source` from `offset` on, each once; and those of other partitions, `others`, from theirs on.

    tuples: answered so far
    refused: dead letters so far, of the inputs in `letters` from their offsets on
    marks: for each result, the tuples so far and when the sink wrote it, in milliseconds since 1970
    latencies_ms: float64, from each tuple's production to the reading of its result, for results since `listen`
    samples: rows of some results
    """

    def __init__(
        self,
        reader: LogReader[bytes],
        source: LogPartition,
        offset: int = 0,
        letters: Sequence[tuple[LogPartition, int]] = (),
        others: Sequence[tuple[LogPartition, int]] = (),
    ) -> None:
        self.tuples = 0
        self.refused = 0
        self.marks: list[tuple[int, int]] = []
        self.latencies_ms: list[F64] = []
        self.produced_ms: list[I64] = []
        self.samples: list[pa.RecordBatch] = []
        self._reader = reader
        self._chains = {each: ResultSequence() for each, _ in ((source, offset), *others)}
        self._records = 0
        self._is_listening = False
        for each, first in ((source, offset), *others, *letters):
            reader.open(each, first)

    def listen(self) -> None:
        """Note latencies from now on."""
        self._is_listening = True

    def close(self) -> None:
        self._reader.close()

    def forget(self) -> None:
        """Drop all latencies, marks and samples, and note latencies from now on."""
        self.listen()
        for noted in (self.latencies_ms, self.produced_ms, self.marks, self.samples):
            noted.clear()

    def latencies_between(self, begin_ms: float, end_ms: float) -> F64:
        """The latencies of tuples produced within [begin, end), milliseconds since 1970: float64 (n,)."""
        produced_ms = np.concatenate([np.zeros(0, np.int64), *self.produced_ms])
        latencies_ms = np.concatenate([np.zeros(0), *self.latencies_ms])
        return latencies_ms[(produced_ms >= begin_ms) & (produced_ms < end_ms)]

    def rate(self, first: int) -> float:
        """Tuples answered per second since tuple `first`, by the times at which the sink wrote.

        Raises RuntimeError if nothing was written later.
        """
        begin = next((mark for mark in self.marks if mark[0] >= first), self.marks[-1])
        tuples, spent_ms = self.marks[-1][0] - begin[0], max(at_ms for _, at_ms in self.marks) - begin[1]
        if spent_ms <= 0:
            raise RuntimeError(f"all results behind tuple {begin[0]:,} were written at once: measure more tuples")
        return 1000 * tuples / spent_ms

    def until(self, tuples: int, tend: Callable[[], None]) -> None:
        """Read until this number of tuples is answered.

        `tend` is called repeatedly and may raise errors. Raises RuntimeError if results stop.
        """
        heard_s = time.monotonic()
        while self.tuples < tuples:
            tend()
            if self.read():
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > STALL_S:
                raise RuntimeError(f"no result for {STALL_S:.0f} s; {self.tuples:,} of {tuples:,} tuples are answered")

    def read(self) -> bool:
        """Read new results, waiting for at most POLL_S; returns whether there were any."""
        records = self._reader.poll(RECORDS_MAX, POLL_S)
        now_ms = time.time() * 1000
        for record in records:
            if record.input in self._chains:
                self._take(record, now_ms)
            else:
                self.refused += 1
        return bool(records)

    def _take(self, record: LogRecord[bytes], now_ms: float) -> None:
        headers = dict(record.headers)
        result = result_from_message(headers, record.value)
        if not self._chains[record.input].accepts(result.begin, progress(headers)):
            return
        if self._records % SAMPLE_EVERY == 0 and result.rows.num_rows:
            self.samples.append(result.rows)
        self._records += 1
        self.tuples += result.end - result.begin
        self.marks.append((self.tuples, record.timestamp_ms))
        if self._is_listening:
            produced_ms = np.repeat(result.produced_ms, result.produced_runs)[result.begin : result.end]
            self.produced_ms.append(produced_ms)
            self.latencies_ms.append(np.float64(now_ms) - produced_ms.astype(np.float64))
