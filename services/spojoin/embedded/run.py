"""A query over files, in this process: readers, engine, writers, and the report of the run."""

from __future__ import annotations

import dataclasses
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from spojoin.embedded.arrow_rows import ArrowRows
from spojoin.embedded.behind import WriterBehind
from spojoin.embedded.compiling import tell_of_compiling
from spojoin.embedded.fed_files import fed
from spojoin.embedded.inputs import InputFile, check_names, is_sorted, may_be_sorted, open_inputs
from spojoin.embedded.kafka_only import check_without_kafka
from spojoin.embedded.named_files import is_written_directly
from spojoin.embedded.outputs import Outputs
from spojoin.embedded.reasons import LATE
from spojoin.embedded.refused import RefusedRows
from spojoin.embedded.rejects import RejectsWriter
from spojoin.embedded.run_files import RunFiles
from spojoin.embedded.table_join import TableJoin, may_be_joined
from spojoin.embedded.table_writer import TableWriter
from spojoin.embedded.whole_or_nothing import WholeOrNothing
from spojoin.embedded.writers import open_writer, report_bytes, result_schema
from spojoin.errors import ConfigurationError
from spojoin.model import ALL_ROWS, Order, Query
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from spojoin.threads import cores

if TYPE_CHECKING:
    from spojoin.embedded.engine import Engine


class RunProgress(NamedTuple):
    """The progress of a run; `fraction` of the inputs read, 0 to 1."""

    fraction: float
    tuples: int
    matches: int
    rejected: int


def run(
    query: Query,
    files: RunFiles,
    *,
    workers: int | None = None,
    threads: int | None = None,
    progress: Callable[[RunProgress], None] = lambda _: None,
    around: Callable[[ArrowRows], ArrowRows] = lambda rows: rows,
) -> dict[str, object]:
    """Join files and return the report, which is also written to `files.report`.

    One file is a stream in its order; two are merged by event time, ties by the streams' order in the query, then
    position. `workers` overrides the number in the query's layout; `threads` is that of the cores unless given, and
    changes nothing but the time. `around` makes of the join's rows those that are written.
    All outputs appear at the end, and none after an error, which has a note that says so; see Outputs.
    Rows in the order of event time are sorted by it where they aren't, unless the query has a lateness.

    Raises ConfigurationError where inputs and query don't fit, or where an output would destroy an input, the query's
    file or another output; BadData where a file can't be read on.
    """
    query = with_an_order(query)
    check_names(query, files.inputs)
    files.check()
    may_sort, asks_first = may_be_sorted(query), files.is_statement or is_written_directly(files.named_output.path)
    sorts = may_sort and asks_first and not is_sorted(query, files.inputs)

    def once(*, sorts: bool) -> dict[str, object]:
        inputs = open_inputs(query, files.inputs, sorts=sorts)
        with Outputs() as outputs, closing(joiner_for(query, workers, threads, accounts=True)) as engine:
            join = _Joining(query, inputs, engine, progress, files.inputs.values())
            join.refuses, join.breaks_off = files.is_statement, may_sort and not asks_first and not sorts
            report = _joined(join, _Sinks(outputs, files), around)
            if files.named_report:
                outputs.open(files.named_report).write(report_bytes(report))
        return report

    try:
        return once(sorts=sorts)
    except _Unsorted:
        return once(sorts=True)


class _Unsorted(Exception):
    """A row came after one of a later time, and nothing has been given away yet."""


def give(rows: ArrowRows, files: RunFiles) -> dict[str, object]:
    """Write rows that need no join, and return the report, which is also written. Raises as `run` does."""
    files.check()
    with Outputs() as outputs:
        sinks = _Sinks(outputs, files)
        with _Results(sinks, rows.schema, is_behind=False) as results, _refused_rows((), sinks) as refused:
            refused.take_of(rows)
            results.write(rows)
        report: dict[str, object] = {**rows.report, "rows_written": results.rows}
        if files.named_report:
            outputs.open(files.named_report).write(report_bytes(report))
    return report


class _Sinks(NamedTuple):
    """Where a run writes."""

    outputs: Outputs
    files: RunFiles


class _Joining(ArrowRows):
    """The rows of a run's join. refused: where refused rows go, once there is a place; refuses: as of `fed`.

    breaks_off: whether a row that comes too late ends it
    """

    refuses = False
    breaks_off = False

    def __init__(
        self,
        query: Query,
        files: Sequence[InputFile],
        engine: Engine | TableJoin,
        progress: Callable[[RunProgress], None],
        sources: Iterable[object],
    ) -> None:
        super().__init__(result_schema(query, [file.key_type for file in files]), sources)
        self.query, self.files, self.engine = query, files, engine
        self.meter = _Meter(query)
        self.refused = RefusedRows(files, None)
        self._progress = progress

    def _take(self) -> None:
        """Take the refused rows of what was read."""
        letters = self.engine.take_rejects()
        if self.breaks_off and any(letter.reason == LATE for letter in letters):
            raise _Unsorted
        self.refused.write(letters)
        self._note(self.refused.figures())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""
        engine, files = self.engine, self.files
        for _, found in fed(engine, files, refuses=self.refuses):
            yield from found
            self._take()
            self.meter.note(files, engine.tuples)
            self._progress(_progress(files, engine))
        yield from engine.finish()
        self._take()
        self._progress(_progress(files, engine))


def _joined(join: _Joining, sinks: _Sinks, around: Callable[[ArrowRows], ArrowRows]) -> dict[str, object]:
    """The files' rows through the engine, results and refused rows to their outputs; the report."""
    query, files, engine, meter = join.query, join.files, join.engine, join.meter
    rows = around(join)
    with (
        _Results(sinks, rows.schema, is_behind=engine.threads > 1) as results,
        _refused_rows(files, sinks) as refused,
    ):
        join.refused = refused
        refused.take_of(rows)
        results.write(rows)
    return {
        "query": query.name,
        "inputs": {file.stream.name: str(file.reader.path) for file in files},
        "tuples": engine.tuples,
        **rows.report,
        "matches": engine.matches,
        "probes_cut_at_limit": engine.cut_probes,
        "rows_written": results.rows,
        **meter.figures(engine.tuples),
        "index_bytes": engine.index_bytes,
        "method": query.method.name,
        "search": engine.counters(),
        "layout": engine.layout_measures(),
    }


#: Nobody waits for a single frame here, so frames are as large as is worthwhile (measured: 8,192 tuples cost 16 % less
#: than 4,096), and a batch is handed over with the next one.
FRAMES = {"frame_tuples": 8_192, "batch_tuples": 8_192, "handover_frames": 1}


def joiner_for(
    query: Query, workers: int | None = None, threads: int | None = None, *, accounts: bool = False
) -> Engine | TableJoin:
    """What joins inputs that end, each read once: DuckDB where that is the better way, else an engine as below.

    Raises ConfigurationError where the query's rows can only come from Kafka.
    """
    engine = partial(engine_for, query, workers, threads, accounts=accounts)
    if workers is not None or not may_be_joined(query):
        return engine()
    check_without_kafka(query)
    return TableJoin(query, threads or cores(), engine)


def engine_for(
    query: Query, workers: int | None = None, threads: int | None = None, *, accounts: bool = False
) -> Engine:
    """An engine that searches its window in `workers` parts; None takes the layout's number, or one.

    threads: how many share the work of a frame; None takes as many as this process may use cores
    accounts: whether it can report what its layout costs

    Raises ConfigurationError where the query's rows can only come from Kafka.
    """
    from spojoin.embedded.engine import Engine  # noqa: PLC0415  (loads compiled kernels, which a table join needs not)

    tell_of_compiling()
    check_without_kafka(query)
    workers = workers or query.layout.workers or 1
    return Engine(query, sizes_for(workers), threads=threads or cores(), accounts=accounts)


def sizes_for(workers: int) -> RouterConfig:
    """How files are cut into frames and batches for so many parts of the window."""
    return RouterConfig("embedded", workers, **FRAMES, credits_frames=UNLIMITED)


def with_an_order(query: Query) -> Query:
    """Two inputs have no order of arrival between them: event time gives them one. Raises ConfigurationError.

    None is needed where rows answer about all rows.
    """
    if query.is_of_one_input or query.has_table or query.window == ALL_ROWS:
        return query
    for stream in query.streams:
        if stream.time is None:
            raise ConfigurationError(
                f"stream {stream.name!r} has no time column, which puts the rows of two inputs in order: "
                "add 'time: <column>' to both streams of the query"
            )
    return dataclasses.replace(query, order=Order.EVENT_TIME)


def _progress(files: Sequence[InputFile], engine: Engine | TableJoin) -> RunProgress:
    fraction = sum(file.reader.fraction for file in files) / len(files)
    return RunProgress(fraction, engine.tuples, engine.matches, sum(engine.rejected.values()))


class _Results(WholeOrNothing):
    """The results' output, opened with the columns of the first batch, so that none that the engine adds is lost."""

    def __init__(self, sinks: _Sinks, schema: pa.Schema, *, is_behind: bool) -> None:
        self.rows = 0
        self._is_behind = is_behind
        self._files = sinks.files
        self._sink = sinks.outputs.open(sinks.files.named_output)
        self._default_schema = schema
        self._writer: TableWriter | None = None

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._opened(batch.schema).write(batch)
            self.rows += batch.num_rows

    def close(self) -> None:
        self._opened(self._default_schema).close()

    def abandon(self, error: BaseException) -> None:
        if self._writer:
            self._writer.abandon(error)

    def _opened(self, schema: pa.Schema) -> TableWriter:
        if self._writer is None:
            writer = open_writer(self._files.output, schema, self._sink, self._files.format)
            self._writer = WriterBehind(writer) if self._is_behind else writer
        return self._writer


def _refused_rows(files: Sequence[InputFile], sinks: _Sinks) -> RefusedRows:
    file = sinks.files.named_rejects
    return RefusedRows(files, RejectsWriter(file.path, sinks.outputs.open(file)) if file else None)


class _Meter:
    """Time from the first rows to the end, and from the moment when all windows are full."""

    def __init__(self, query: Query) -> None:
        self._window = query.window
        self._started = time.perf_counter()
        self._full: tuple[float, int] | None = None

    def note(self, files: Sequence[InputFile], tuples: int) -> None:
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

    def _is_full(self, file: InputFile) -> bool:
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
