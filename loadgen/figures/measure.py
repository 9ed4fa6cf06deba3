"""What a tuple costs with a full window, by method: stored, and searched for in every role of a self join.

The methods are measured at their own interface, without router and sink, which favours them: the product's own is
measured as a whole engine, frames, order and result rows included.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.bench.data import by_slot
from loadgen.figures.workloads import Workload
from spojoin.embedded.run import engine_for
from spojoin.errors import SpoJoinError
from spojoin.methods.machine import StreamSide, searches_of
from spojoin.methods.registry import SIDES
from spojoin.query.methods import method
from spojoin.query.model import DEFAULT_METHOD, Query

I64 = NDArray[np.int64]

#: Tuples stored at once while a window is filled.
FILL_TUPLES = 8_192
#: Tuples of the first measured chunk; later ones take about CHUNK_S each.
FIRST_TUPLES, CHUNK_S, CHUNK_TUPLES_MAX = 16, 0.2, 8_192
#: The engine's clock starts when the window is full and a slide has passed: all its batches are immutable by then.
SETTLE_SLIDES = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """us: a tuple, in all roles; matches: found by the measured tuples; error: why there is no figure."""

    method: str
    workload: str
    window: int
    us: float | None = None
    tuples: int = 0
    matches: int = 0
    bytes_a_tuple: float | None = None
    merges: float = 0
    merge_ms: float = 0
    error: str = ""

    @property
    def tuples_per_second(self) -> float | None:
        """The rate that follows."""
        return None if self.us is None else 1e6 / self.us


def measure(name: str, workload: Workload, window: int, seconds: float) -> Measured:
    """One method on one workload and window; a method that refuses the query says why."""
    query = replace(workload.query(window), method=method(name, {}))
    try:
        return (_engine if name == DEFAULT_METHOD else _side)(query, workload, window, seconds)
    except SpoJoinError as error:
        return Measured(name, workload.name, window, error=str(error))


def _side(query: Query, workload: Workload, window: int, seconds: float) -> Measured:
    name = query.method.name
    data = by_slot(query, workload.columns(window + 64 * CHUNK_TUPLES_MAX))
    codes = np.ascontiguousarray(np.stack(data))
    stream = StreamSide(query, 0, SIDES[name])
    side, slide = stream.side, query.window.slide
    nothing = np.empty(0, np.int64)
    none = [searches_of(role, codes[:, :0]) for role in query.roles]
    for first in range(0, window, FILL_TUPLES):
        end = min(first + FILL_TUPLES, window)
        side.take(np.ascontiguousarray(codes[:, first:end]), none, nothing, nothing)
    side.counters.merges, side.counters.merge_seconds = 0, 0.0
    at, spent, matches, chunk = window, 0.0, 0, FIRST_TUPLES
    _chunk(side, query, codes, at, chunk, slide)  # compiles what the first probe needs
    at += chunk
    measured_from = at
    while spent < seconds and at + chunk <= codes.shape[1]:
        took, found = _chunk(side, query, codes, at, chunk, slide)
        spent, matches, at = spent + took, matches + found, at + chunk
        chunk = int(np.clip(chunk * CHUNK_S / max(took, 1e-6), FIRST_TUPLES, CHUNK_TUPLES_MAX))
    tuples = at - measured_from
    return Measured(
        name,
        workload.name,
        window,
        1e6 * spent / tuples,
        tuples,
        matches,
        side.nbytes / max(window, 1),
        side.counters.merges,
        1e3 * side.counters.merge_seconds,
    )


def _chunk(side: Any, query: Query, codes: I64, first: int, count: int, slide: int) -> tuple[float, int]:  # noqa: ANN401
    """(seconds, matches) of storing and searching for the tuples [first, first + count)."""
    own = np.ascontiguousarray(codes[:, first : first + count])
    upper = np.arange(first, first + count, dtype=np.int64)
    lower = np.maximum(-(-upper // slide) * slide - query.window.length, 0)
    began = time.perf_counter()
    found = side.take(own, [searches_of(role, own) for role in query.roles], lower, upper)
    took = time.perf_counter() - began
    return took, sum(int(each.counts.sum()) for each in found)


def _engine(query: Query, workload: Workload, window: int, seconds: float) -> Measured:
    warm = window + SETTLE_SLIDES * query.window.slide
    data = workload.columns(warm + 400 * FILL_TUPLES)
    engine = engine_for(query, 1)
    batches = _batches(data.a, data.b)
    fed = 0
    while fed < warm:
        fed += _feed(engine, next(batches))[0]
    tuples, matches, began = 0, 0, time.perf_counter()
    before = engine.counters()
    while time.perf_counter() - began < seconds and (batch := next(batches, None)) is not None:
        count, found = _feed(engine, batch)
        tuples, matches = tuples + count, matches + found
    spent, after = time.perf_counter() - began, engine.counters()
    return Measured(
        query.method.name,
        workload.name,
        window,
        1e6 * spent / tuples,
        tuples,
        matches,
        engine.index_bytes / window,
        after["merges"] - before["merges"],
        1e3 * (after["merge_seconds"] - before["merge_seconds"]),
    )


def _batches(a: NDArray[np.float64], b: NDArray[np.float64]) -> Iterator[pa.RecordBatch]:
    for first in range(0, len(a), FILL_TUPLES):
        rows = slice(first, first + FILL_TUPLES)
        yield pa.record_batch({"a": a[rows], "b": b[rows]})


def _feed(engine: Any, batch: pa.RecordBatch) -> tuple[int, int]:  # noqa: ANN401
    found = sum(int(np.asarray(rows["matches"]).sum()) for rows in engine.feed(0, batch))
    return batch.num_rows, found
