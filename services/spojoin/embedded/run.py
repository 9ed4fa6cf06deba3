"""A query over files, in this process: readers, engine, writers, and what is told about the run."""

from __future__ import annotations

import contextlib
import dataclasses
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import pyarrow as pa

from spojoin.embedded.engine import UNLIMITED, Engine
from spojoin.embedded.inputs import Input, balanced, open_inputs
from spojoin.embedded.rejects import Reject, RejectsWriter
from spojoin.embedded.writers import TableWriter, open_writer, result_schema, write_report
from spojoin.errors import ConfigurationError
from spojoin.query.model import Order, Query
from spojoin.router.config import RouterConfig
from spojoin.wire.records import DeadLetter

MALFORMED = "malformed"


class Progress(NamedTuple):
    """How far a run has come; `fraction` of the inputs read, 0 to 1."""

    fraction: float
    tuples: int
    matches: int
    rejected: int


def run(
    query: Query,
    inputs: Mapping[str, Path],
    output: Path,
    *,
    rejects: Path | None = None,
    report: Path | None = None,
    workers: int | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> dict[str, object]:
    """Join files and return the report, which is also written to `report`.

    `inputs` maps each stream's name to its file. One file is a stream in its order; two are merged by event time, ties
    by the streams' order in the query, then position. `workers` goes before the number that the query's layout has.

    Raises ConfigurationError where inputs and query don't fit, BadData where a file can't be read on.
    """
    query = _with_an_order(query)
    files = open_inputs(query, inputs)
    engine = engine_for(query, workers)
    meter = _Meter(query)
    with contextlib.ExitStack() as stack:
        results = stack.enter_context(_Results(output, query, [file.key_type for file in files]))
        refused = stack.enter_context(_Refused(files, rejects))
        for file, batch in balanced(files):
            results.write(engine.end(file.index) if batch is None else engine.feed(file.index, batch))
            refused.write(engine.take_rejects())
            meter.note(files, engine.tuples)
            progress(_progress(files, engine))
        results.write(engine.flush())
        refused.write(engine.take_rejects())
        progress(_progress(files, engine))
    told = {
        "query": query.name,
        "inputs": {name: str(path) for name, path in inputs.items()},
        "tuples": engine.tuples,
        "rejected": sum(engine.rejected.values()),
        "rejected_by_reason": refused.by_reason(engine.rejected),
        "matches": engine.matches,
        "probes_cut_at_limit": engine.cut_probes,
        "rows_written": results.rows,
        **meter.figures(engine.tuples),
        "index_bytes": engine.index_bytes,
        "method": query.method.name,
        "search": engine.counters(),
        "layout": engine.layout_measures(),
    }
    if report:
        write_report(report, told)
    return told


#: Nobody waits for a single frame here, so frames are as large as pays (measured: 8,192 tuples cost 16 % less than
#: 4,096), and a batch is handed over with the next one.
FRAMES = {"frame_tuples": 8_192, "batch_tuples": 8_192, "handover_frames": 1}


def engine_for(query: Query, workers: int | None = None) -> Engine:
    """An engine whose window is searched in `workers` parts; without a number in as many as the layout says, or one."""
    workers = workers or query.layout.workers or 1
    return Engine(query, RouterConfig("embedded", workers, **FRAMES, credits_frames=UNLIMITED))


def _with_an_order(query: Query) -> Query:
    """Two files have no order of arrival between them: event time gives them one."""
    if query.is_self:
        return query
    for stream in query.streams:
        if stream.time is None:
            raise ConfigurationError(
                f"stream {stream.name!r} has no time column, which puts the rows of two files in order: "
                "add 'time: <column>' to both streams of the query"
            )
    return dataclasses.replace(query, order=Order.EVENT_TIME)


def _progress(files: Sequence[Input], engine: Engine) -> Progress:
    fraction = sum(file.reader.fraction for file in files) / len(files)
    return Progress(fraction, engine.tuples, engine.matches, sum(engine.rejected.values()))


class _Results:
    """The output file, opened with the columns of the first batch so that nothing the engine adds is lost."""

    def __init__(self, path: Path, query: Query, key_types: Sequence[pa.DataType]) -> None:
        self.rows = 0
        self._path = path
        self._default_schema = result_schema(query, key_types)
        self._writer: TableWriter | None = None
        open_writer(path, self._default_schema).close()  # a wrong path shows before the work

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._opened(batch.schema).write(batch)
            self.rows += batch.num_rows

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened(self._default_schema).close()

    def _opened(self, schema: pa.Schema) -> TableWriter:
        if self._writer is None:
            self._writer = open_writer(self._path, schema)
        return self._writer


class _Refused:
    """Turns the engine's dead letters into lines of the rejects file, if there is one."""

    def __init__(self, files: Sequence[Input], path: Path | None) -> None:
        self._files = files
        self._writer = RejectsWriter(path) if path else None
        self._renamed: Counter[str] = Counter()

    def write(self, letters: Iterable[DeadLetter]) -> None:
        rejects = [self._reject(letter) for letter in letters]
        if self._writer:
            self._writer.write(rejects)

    def by_reason(self, counted: Mapping[str, int]) -> dict[str, int]:
        """The engine's counts, with the lines that were no rows under their own name."""
        counts = Counter(counted)
        counts.subtract(self._renamed)
        counts[MALFORMED] += self._renamed.total()
        return {reason: count for reason, count in sorted(counts.items()) if count}

    def _reject(self, letter: DeadLetter) -> Reject:
        file = self._files[letter.stream]
        row = file.row(letter.offset)
        if not isinstance(row, str):
            return Reject(letter.offset, file.stream.name, letter.reason, letter.detail, row)
        self._renamed[letter.reason] += 1
        detail = f"the line is no row with the columns of {file.reader.path.name}"
        return Reject(letter.offset, file.stream.name, MALFORMED, detail, row)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer:
            self._writer.close()


class _Meter:
    """Time from the first rows to the end, and since the windows of all streams are full."""

    def __init__(self, query: Query) -> None:
        self._window = query.window
        self._started = time.perf_counter()
        self._full: tuple[float, int] | None = None

    def note(self, files: Sequence[Input], tuples: int) -> None:
        if self._full is None and all(self._is_full(file) for file in files):
            self._full = time.perf_counter(), tuples

    def figures(self, tuples: int) -> dict[str, object]:
        now = time.perf_counter()
        full_at, full_tuples = self._full or (now, tuples)
        return {
            "seconds": round(now - self._started, 6),
            "tuples_per_second": _rate(tuples, now - self._started),
            "tuples_window_full": tuples - full_tuples,
            "tuples_per_second_window_full": _rate(tuples - full_tuples, now - full_at),
            "peak_rss_bytes": peak_rss_bytes(),
        }

    def _is_full(self, file: Input) -> bool:
        if not self._window.is_time:
            return file.rows >= self._window.length
        first, last = file.first_time_us, file.last_time_us
        return first is not None and last is not None and last - first >= self._window.length


def _rate(tuples: int, seconds: float) -> float | None:
    return round(tuples / seconds, 1) if tuples and seconds > 0 else None


def peak_rss_bytes() -> int:
    """The most memory that this process has held; Linux counts in KiB, macOS in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
