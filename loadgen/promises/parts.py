"""The embedded engine's time by part: each state machine's own time, and the rest."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq

from loadgen.bench.measurement import Measurement
from spojoin.embedded.engine import Engine
from spojoin.embedded.outputs import TableWriter
from spojoin.embedded.run import frame_sizes
from spojoin.embedded.writers import open_writer
from spojoin.model import Query
from spojoin.protocol.machine import Machine
from spojoin.protocol.packed_machine import Fellow
from spojoin.query.load import load_query

READ, WRITE, ENGINE = "read Parquet", "write Parquet", "engine"
T = TypeVar("T")


class Stopwatch:
    """Seconds by part; a part's clock stops while the consumer of its items works."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def time(self, part: str, run: Callable[[], object]) -> None:
        """Run and count the time."""
        began = time.perf_counter()
        run()
        self.seconds[part] += time.perf_counter() - began

    def draw(self, part: str, items: Iterator[T]) -> Iterator[T]:
        """The same items, with the time to make them counted."""
        while True:
            began = time.perf_counter()
            try:
                item = next(items)
            except StopIteration:
                return
            finally:
                self.seconds[part] += time.perf_counter() - began
            yield item


class _Timed:
    """A machine with timed generators; it delegates the rest."""

    def __init__(self, machine: Machine, part: str, stopwatch: Stopwatch) -> None:
        self._machine = machine
        self._part = part
        self._stopwatch = stopwatch

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._machine)

    def __getattr__(self, name: str) -> object:
        found = getattr(self._machine, name)
        if name not in ("on_record", "on_rows", "on_time", "flush"):
            return found
        return lambda *given: self._stopwatch.draw(self._part, found(*given))


class TimedEngine(Engine):
    """An engine whose machines are timed."""

    def __init__(self, query: Query, stopwatch: Stopwatch) -> None:
        self._stopwatch = stopwatch
        super().__init__(query, frame_sizes(1))

    def _fellows(self) -> list[Fellow]:
        fellows = [replace(fellow, machine=self._timed(fellow.machine)) for fellow in super()._fellows()]
        self._router, self._sink = fellows[0].machine, fellows[1].machine  # type: ignore[assignment]
        return fellows

    def _timed(self, machine: Machine) -> Machine:
        return cast("Machine", _Timed(machine, type(machine).__name__.removesuffix("Machine"), self._stopwatch))


def run_by_part(query_file: Path, source: Path, output: Path, window: int) -> Iterator[Measurement]:
    """Microseconds per tuple by part, with a full window."""
    query = load_query(query_file)
    stopwatch = Stopwatch()
    engine = TimedEngine(query, stopwatch)
    begun_at, began = 0, time.perf_counter()
    with pq.ParquetFile(source) as file, closing(_Output(output, stopwatch)) as results:
        for batch in stopwatch.draw(READ, file.iter_batches(1 << 16)):
            if not begun_at and engine.tuples >= window:
                begun_at, began = engine.tuples, time.perf_counter()
                stopwatch.seconds.clear()
            results.write(engine.feed(0, batch))
        results.write(engine.flush())
    whole = time.perf_counter() - began
    stopwatch.seconds[ENGINE] = whole - sum(stopwatch.seconds.values())
    tuples = engine.tuples - begun_at
    for part, seconds in sorted(stopwatch.seconds.items(), key=lambda item: -item[1]):
        yield Measurement(f"embedded part: {part}", seconds / tuples * 1e6, "us a tuple", note=f"{seconds / whole:.0%}")


class _Output:
    """Writes results, timed separately from their computation."""

    def __init__(self, path: Path, stopwatch: Stopwatch) -> None:
        self._path = path
        self._stopwatch = stopwatch
        self._writer: TableWriter | None = None

    def write(self, batches: Iterator[pa.RecordBatch]) -> None:
        for batch in batches:
            self._writer = self._writer or open_writer(self._path, batch.schema)
            self._stopwatch.time(WRITE, partial(self._writer.write, batch))

    def close(self) -> None:
        if self._writer is not None:
            self._stopwatch.time(WRITE, self._writer.close)
