"""The product's embedded engine, with any method to search a window; it includes ordering and results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.engines.adapters.engine import PythonEngine
from loadgen.engines.workloads import EngineWorkload, of_stream
from spojoin.embedded.run import engine_for
from spojoin.evaluation.choices import check, method
from spojoin.query.load import parse_query
from spojoin.version import __version__

_STREAM = "  {name}:\n    schema: {{{columns}}}\n    time: ts\n"


class SpoJoin(PythonEngine):
    """A method of the product. Two streams come in order by event time, which is the row's number."""

    def __init__(self, workload: EngineWorkload, name: str) -> None:
        super().__init__(workload)
        query = replace(parse_query(query_text(workload)), method=method(name, {}))
        check(query)
        self._engine = engine_for(query, 1)
        self._answers = 0
        self._parities = (None,) if workload.question.is_self else (0, 1)

    @property
    def version(self) -> str:
        return __version__

    def fill(self, first: int, last: int) -> None:
        """Store rows as probes do; the first rows find the few earlier ones."""
        self.probe(first, last)

    def probe(self, first: int, last: int) -> int:
        """Feed both streams' rows, and flush to get all answers."""
        before = self._found()
        for stream in range(len(self._parities)):
            # After a flush a stream counts as ended until it is fed again, even without rows.
            self._take(self._engine.feed(stream, self._rows(first, first, None)))
        for stream, parity in enumerate(self._parities):
            self._take(self._engine.feed(stream, self._rows(first, last, parity)))
        self._take(self._engine.flush())
        return self._found() - before

    def _found(self) -> int:
        return self._answers if self.workload.question.asks else self._engine.matches

    def _take(self, results: Iterable[pa.RecordBatch]) -> None:
        for batch in results:
            if self.workload.question.asks and batch.num_rows:
                self._answers += int(pc.sum(batch["found"], min_count=0).as_py())

    def _rows(self, first: int, last: int, parity: int | None) -> pa.RecordBatch:
        columns = {"ts": np.arange(first, last, dtype=np.int64)}
        columns |= {name: column[first:last] for name, column in self.workload.columns.items()}
        return pa.record_batch({name: of_stream(column, parity, first) for name, column in columns.items()})


def query_text(workload: EngineWorkload) -> str:
    """The workload as a query file."""
    names = ["rows"] if workload.question.is_self else ["evens", "odds"]
    declared = [f"{name}: long" for name in workload.question.columns]
    if workload.question.asks:
        declared.append("ts: timestamp")
    streams = "".join(_STREAM.format(name=name, columns=", ".join(declared)) for name in names)
    window = f"WINDOW AS (SLIDE INTERVAL '1' ON '{workload.window}')"
    window += " EMIT ON ARRIVAL" if workload.question.asks else ""
    order = "arrival" if workload.question.is_self else "event_time"
    return f"name: {workload.name}\nstreams:\n{streams}sql: |\n  {workload.sql()}\n  {window}\norder: {order}\n"
