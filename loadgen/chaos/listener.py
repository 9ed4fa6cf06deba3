"""Reads results like any consumer of committed records, and measures their silences."""

from __future__ import annotations

import io
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.check.results import EarlyRecords, RecordChain, ResultRecord
from spojoin.arrays import F64, I64
from spojoin.errors import Retryable
from spojoin.ports.interfaces import Log, LogPartition

RECORDS_MAX = 1_000
POLL_S = 0.1
#: The number of differences kept as text; all are counted.
DIFFERENCES_MAX = 10


class HeardAnswers(NamedTuple):
    """Match counts of consecutive tuples: seqs, as_left and as_right, int64 (n,) each."""

    seqs: I64
    as_left: I64
    as_right: I64


class Arrival(NamedTuple):
    """The times at which new results were read, by this process's monotonic clock, and the tuples answered by then."""

    at_s: float
    tuples: int


class ResultListener:
    """Reads all partitions of the topic of results from their beginnings on, within a `with` block.

    Only records that continue the chain of all frames count: one that comes early waits for those of other partitions.
    Their tuples must follow the previous ones, each with the key of its seq.

    arrivals: of every record that counts; differences: the first few in words; wrong: the number of wrong tuples
    judge: called in the listening thread with each record's answers; marks wrong ones, bool (n,)
    """

    def __init__(self, log: Log[bytes], topic: str, judge: Callable[[HeardAnswers], NDArray[np.bool_] | None]) -> None:
        self.arrivals: list[Arrival] = []
        self.differences: list[str] = []
        self.wrong = 0
        self._log = log
        self.sources = [LogPartition(topic, number) for number in range(log.partitions(topic))]
        self._judge = judge
        self._chain = RecordChain(keeps=False)
        self._early = EarlyRecords(self._chain, self._take)
        self._positions = dict.fromkeys(self.sources, 0)
        self._tuples = 0
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)

    @property
    def tuples(self) -> int:
        """Tuples answered so far."""
        return self.arrivals[-1].tuples if self.arrivals else 0

    @property
    def generation(self) -> int:
        """The number of the query that answers, from 1."""
        return self._chain.generation

    @property
    def resent(self) -> int:
        """The number of records that were written again, so dropped."""
        return self._chain.resent

    @property
    def is_exact(self) -> bool:
        """Whether all results so far were right, in order and without duplicates."""
        return not self.wrong and self._chain.gap is None

    def check(self) -> None:
        """Raise the exception that ended the thread, if any."""
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._listen()
        except Exception as error:  # noqa: BLE001 - raised where `check` is called
            self._error = error

    def _listen(self) -> None:
        """Read until the end. If a reader fails, a new one continues, since the broker may only be restarting."""
        reader = self._log.reader()
        try:
            for source, position in self._positions.items():
                reader.open(source, position)
            while not self._stop.is_set():
                for record in reader.poll(RECORDS_MAX, POLL_S):
                    self._early.take(ResultRecord(dict(record.headers), record.value))
                    self._positions[record.input] = record.offset + 1
        except Retryable:
            self._stop.wait(POLL_S)
        finally:
            reader.close()

    def _take(self, record: ResultRecord) -> None:
        if not self._chain.take(record):
            if self._chain.gap is not None and not self.differences:
                self.differences.append(self._chain.gap)
            return
        with pa.ipc.open_stream(io.BytesIO(record.value)) as stream:
            table = stream.read_all()
        if len(table):
            self._compare(table)
            self._tuples += len(table)
            self.arrivals.append(Arrival(time.monotonic(), self._tuples))

    def _compare(self, table: pa.Table) -> None:
        """Judge a record's rows; a query that replaces another continues where that one stopped."""
        seqs, keys = (_whole_numbers(table[name]) for name in ("seq", "key"))
        wanted = np.arange(self._tuples, self._tuples + len(table), dtype=np.int64)
        if not (np.array_equal(seqs, wanted) and np.array_equal(keys, wanted)):
            self._differs(len(wanted), f"expected the tuples {wanted[0]} to {wanted[-1]} with their keys")
            return
        answers = HeardAnswers(seqs, _whole_numbers(table["as_left"]), _whole_numbers(table["as_right"]))
        wrong = self._judge(answers)
        if wrong is not None and wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            found = {"as_left": int(answers.as_left[at]), "as_right": int(answers.as_right[at])}
            self._differs(int(wrong.sum()), f"tuple {seqs[at]} has {found}, which the definition contradicts")

    def _differs(self, tuples: int, text: str) -> None:
        self.wrong += tuples
        if len(self.differences) < DIFFERENCES_MAX:
            self.differences.append(text)


def _whole_numbers(column: pa.ChunkedArray) -> I64:
    """A column of integers as int64 (n,); keys may be text or dictionary-encoded."""
    plain = column.combine_chunks()
    if pa.types.is_dictionary(plain.type):
        plain = plain.dictionary_decode()
    return np.asarray(plain.cast(pa.int64()))


def longest_gap_ms(arrivals: Sequence[Arrival], begin_s: float, end_s: float) -> float:
    """The longest gap between consecutive results that ends after `begin_s` and begins before `end_s`.

    A gap that began before `begin_s` counts in full, so that a fault within a gap is charged with all of it. If no
    result came after `begin_s`, the gap lasts until `end_s`.
    """
    first = max(bisect_left(arrivals, begin_s, key=attrgetter("at_s")) - 1, 0)
    last = bisect_right(arrivals, end_s, key=attrgetter("at_s"))
    moments = [arrival.at_s for arrival in arrivals[first : last + 1]]
    if not moments or moments[-1] < begin_s:
        moments.append(end_s)
    return 1000 * float(np.diff(np.array(moments)).max(initial=0.0))


def gaps_ms(arrivals: Sequence[Arrival], begin_s: float, end_s: float) -> F64:
    """All gaps between consecutive results within [begin_s, end_s], in milliseconds, float64 (n,)."""
    moments = np.array([arrival.at_s for arrival in arrivals if begin_s <= arrival.at_s <= end_s])
    return 1000 * np.diff(moments)


def answered_at_s(arrivals: Sequence[Arrival], tuples: int) -> float | None:
    """When this many tuples were answered; None before that."""
    at = bisect_left(arrivals, tuples, key=attrgetter("tuples"))
    return arrivals[at].at_s if at < len(arrivals) else None


def percentile(values: Sequence[float] | F64, percent: float) -> float:
    """The least value that `percent` of the values don't exceed; of fewer than 100 values, p99 is the largest."""
    return float(np.percentile(np.asarray(values, np.float64), percent, method="inverted_cdf"))
