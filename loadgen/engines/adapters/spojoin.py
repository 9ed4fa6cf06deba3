"""The product, with its own way to search a window or any other: the embedded engine, order and results included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from loadgen.engines.adapters.engine import PythonEngine
from loadgen.engines.workloads import EngineWorkload, of_stream
from spojoin.embedded.run import engine_for
from spojoin.published.methods.catalog import method
from spojoin.query.load import parse_query
from spojoin.version import __version__

_STREAM = "  {name}:\n    schema: {{a: long, b: long}}\n    time: ts\n"


class SpoJoin(PythonEngine):
    """A method of the product. Two streams come in order by event time, which is the row's number."""

    def __init__(self, workload: EngineWorkload, name: str) -> None:
        super().__init__(workload)
        query = replace(parse_query(query_text(workload)), method=method(name, {}))
        self._engine = engine_for(query, 1)
        self._parities = (None,) if query.is_self else (0, 1)

    @property
    def version(self) -> str:
        """The package's."""
        return __version__

    def fill(self, first: int, last: int) -> None:
        """By the same way as probes: the first rows find what little came before them."""
        self.probe(first, last)

    def probe(self, first: int, last: int) -> int:
        """Feed both streams' rows, and ask for all that can be said of them."""
        before = self._engine.matches
        for stream in range(len(self._parities)):
            # After a flush streams count as ended until they bring something, if only nothing.
            self._take(self._engine.feed(stream, self._rows(first, first, None)))
        for stream, parity in enumerate(self._parities):
            self._take(self._engine.feed(stream, self._rows(first, last, parity)))
        self._take(self._engine.flush())
        return self._engine.matches - before

    def _take(self, results: object) -> None:
        for _ in results:  # type: ignore[attr-defined]
            pass

    def _rows(self, first: int, last: int, parity: int | None) -> pa.RecordBatch:
        a, b = (of_stream(column[first:last], parity, first) for column in self.workload.columns)
        ts = of_stream(np.arange(first, last, dtype=np.int64), parity, first)
        return pa.record_batch({"a": a, "b": b, "ts": ts})


def query_text(workload: EngineWorkload) -> str:
    """The workload as a query file."""
    names = ["rows"] if workload.question.is_self else ["evens", "odds"]
    streams = "".join(_STREAM.format(name=name) for name in names)
    window = f"WINDOW AS (SLIDE INTERVAL '1' ON '{workload.window}')"
    order = "arrival" if workload.question.is_self else "event_time"
    return f"name: {workload.name}\nstreams:\n{streams}sql: |\n  {workload.sql()}\n  {window}\norder: {order}\n"
