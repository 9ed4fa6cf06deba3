"""Listens to results as any consumer of committed records may, from a thread of its own, and notes when they come."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.check.results import RecordChain, ResultRecord
from spojoin.errors import Retryable
from spojoin.ports.interfaces import Log, LogPartition, LogRecord

I64 = NDArray[np.int64]

RECORDS_MAX = 1_000
POLL_S = 0.1
#: Differences that are kept as text; all are counted.
DIFFERENCES_MAX = 10


class HeardAnswers(NamedTuple):
    """Counts of consecutive tuples: seqs, as_left and as_right, int64 (n,) each."""

    seqs: I64
    as_left: I64
    as_right: I64


class Arrival(NamedTuple):
    """When new results were read, by this process' monotonic clock, and how many tuples are answered with them."""

    at_s: float
    tuples: int


class ResultListener:
    """Reads `source` from its beginning on, within a `with` block.

    Each record that continues the chain counts; its tuples must continue those before, each with the key of its seq.

    arrivals: of every record that counts; differences: what is wrong, the first few; wrong: how many tuples are
    judge: called with every record's answers, from the listening thread; returns which are wrong, bool (n,)
    """

    def __init__(
        self, log: Log[bytes], source: LogPartition, judge: Callable[[HeardAnswers], NDArray[np.bool_] | None]
    ) -> None:
        self.arrivals: list[Arrival] = []
        self.differences: list[str] = []
        self.wrong = 0
        self._log = log
        self.source = source
        self._judge = judge
        self._chain = RecordChain(keeps=False)
        self._position = 0
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
        """Which query answers, counted from 1."""
        return self._chain.generation

    @property
    def resent(self) -> int:
        """Records that were written again, and dropped."""
        return self._chain.resent

    @property
    def is_exact(self) -> bool:
        """Whether everything that came was right, in order and once."""
        return not self.wrong and self._chain.gap is None

    def check(self) -> None:
        """Raise what ended the thread, if anything."""
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
        """Until the end, or until the reader fails: another one then goes on, since the broker may only restart."""
        reader = self._log.reader()
        try:
            reader.open(self.source, self._position)
            while not self._stop.is_set():
                records = reader.poll(RECORDS_MAX, POLL_S)
                now_s = time.monotonic()
                for record in records:
                    self._take(record, now_s)
                    self._position = record.offset + 1
        except Retryable:
            self._stop.wait(POLL_S)
        finally:
            reader.close()

    def _take(self, record: LogRecord[bytes], now_s: float) -> None:
        if not self._chain.take(ResultRecord(dict(record.headers), record.value)):
            if self._chain.gap is not None and not self.differences:
                self.differences.append(self._chain.gap)
            return
        with pa.ipc.open_stream(io.BytesIO(record.value)) as stream:
            table = stream.read_all()
        if len(table):
            self._compare(table)
            self._tuples += len(table)
            self.arrivals.append(Arrival(now_s, self._tuples))

    def _compare(self, table: pa.Table) -> None:
        """Judge a record's rows: a query that replaces another goes on where that one stopped."""
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
    """A column of integers, dictionary-encoded or text as keys may be: int64 (n,)."""
    plain = column.combine_chunks()
    if pa.types.is_dictionary(plain.type):
        plain = plain.dictionary_decode()
    return np.asarray(plain.cast(pa.int64()))
