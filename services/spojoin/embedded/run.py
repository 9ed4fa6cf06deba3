"""A query over files or tables, in this process: readers, engine, writers, and the report of the run."""

from __future__ import annotations

import dataclasses
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from spojoin.embedded.arrow_rows import ArrowRows
from spojoin.embedded.file_paths import is_written_directly
from spojoin.embedded.input_options import check_without_kafka
from spojoin.embedded.inputs import (
    InputFile,
    check_stream_names,
    is_sorted,
    may_be_sorted,
    open_inputs,
    read_balanced,
    rows_and_malformed,
    table_name,
    whole_table,
)
from spojoin.embedded.outputs import Outputs, TableWriter, WholeOrNothing, WriterBehind
from spojoin.embedded.rejects import LATE, RefusalCounts, Reject, RejectsOfReadings, RejectsWriter
from spojoin.embedded.run_files import RunFiles
from spojoin.embedded.statements import BareStatement
from spojoin.embedded.table_join import TableJoin, is_joined_by_duckdb
from spojoin.embedded.writers import open_writer, report_bytes, result_schema
from spojoin.errors import ConfigurationError
from spojoin.evaluation.choices import evaluations
from spojoin.model import Order, Query
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from spojoin.threads import cores
from spojoin.wire.records import DeadLetter

if TYPE_CHECKING:
    from spojoin.embedded.engine import Engine

_compile_listeners: list[Callable[[], object]] = []

MALFORMED = "malformed"

#: No one waits for a single frame here, so frames are large: measured, 8,192 tuples cost 16 % less than 4,096. A batch
#: is handed over with the next frame.
FRAMES: dict[str, Any] = {"frame_tuples": 8_192, "batch_tuples": 8_192, "handover_frames": 1}


class RunProgress(NamedTuple):
    """The progress of a run. fraction: the part of the inputs that has been read, 0 to 1."""

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
    surround: Callable[[ArrowRows], ArrowRows] = lambda rows: rows,
) -> dict[str, object]:
    """Join files and return the report, which is also written to `files.report`.

    A single file is read in its order. Two files are merged by event time; ties are resolved by the streams' order in
    the query, then by position. Rows that aren't in the order of event time are sorted, unless the query has a
    lateness. All outputs appear at the end; after an error none does, and the error has a note about that (`Outputs`).

    workers: overrides the number in the query's layout; threads: by default one for each core, results don't depend on
        it
    surround: makes the rows that are written from those of the join

    Raises ConfigurationError if inputs and query don't fit, or if an output would destroy an input, the query's file or
    another output. Raises BadData if a file turns out unreadable.
    """
    query = with_order(query)
    check_stream_names(query, files.inputs)
    files.check()
    may_sort, asks_first = may_be_sorted(query), files.is_statement or is_written_directly(files.named_output.path)
    sorts = may_sort and asks_first and not is_sorted(query, files.inputs)

    def once(*, sorts: bool) -> dict[str, object]:
        inputs = open_inputs(query, files.inputs, sorts=sorts)
        accounts = files.named_report is not None or (workers or query.layout.workers or 1) > 1
        with Outputs() as outputs, closing(joiner_for(query, workers, threads, accounts=accounts)) as engine:
            join = _RunRows(query, inputs, engine, progress, files.inputs.values())
            join.refuses, join.breaks_off = files.is_statement, may_sort and not asks_first and not sorts
            report = _join_into_outputs(join, _Sinks(outputs, files), surround)
            if files.named_report:
                outputs.open(files.named_report).write(report_bytes(report))
        return report

    try:
        return once(sorts=sorts)
    except _Unsorted:
        return once(sorts=True)


class _Unsorted(Exception):
    """A row came after a row of a later time, and no result has been written yet."""


def write_rows(rows: ArrowRows, files: RunFiles) -> dict[str, object]:
    """Write rows that need no join, and return the report, which is also written. Raises what `run` raises."""
    files.check()
    with Outputs() as outputs:
        sinks = _Sinks(outputs, files)
        with _Results(sinks, rows.schema, is_behind=False) as results, _refused_rows((), sinks) as refused:
            refused.write_rejects_of(rows)
            results.write(rows)
        report: dict[str, object] = {**rows.report, "rows_written": results.rows}
        if files.named_report:
            outputs.open(files.named_report).write(report_bytes(report))
    return report


class _Sinks(NamedTuple):
    """Where a run writes."""

    outputs: Outputs
    files: RunFiles


class _RunRows(ArrowRows):
    """The rows of a run's join.

    refused: takes the refused rows, set once their output is open; refuses: see `feed_inputs`
    breaks_off: whether a late row ends the reading with `_Unsorted`
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

    def _take_refused(self) -> None:
        """Write the rows that the engine has refused since the last call. Raises _Unsorted."""
        letters = self.engine.take_rejects()
        if self.breaks_off and any(letter.reason == LATE for letter in letters):
            raise _Unsorted
        self.refused.write(letters)
        self._note(self.refused.figures())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        engine, files = self.engine, self.files
        for _, found in feed_inputs(engine, files, refuses=self.refuses):
            yield from found
            self._take_refused()
            self.meter.note(files, engine.tuples)
            self._progress(_progress(files, engine))
        yield from engine.finish()
        self._take_refused()
        self._progress(_progress(files, engine))


def _join_into_outputs(join: _RunRows, sinks: _Sinks, surround: Callable[[ArrowRows], ArrowRows]) -> dict[str, object]:
    """Run the join, write results and refused rows to their outputs, and return the report."""
    query, files, engine, meter = join.query, join.files, join.engine, join.meter
    rows = surround(join)
    with (
        _Results(sinks, rows.schema, is_behind=engine.threads > 1) as results,
        _refused_rows(files, sinks) as refused,
    ):
        join.refused = refused
        refused.write_rejects_of(rows)
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


def joiner_for(
    query: Query, workers: int | None = None, threads: int | None = None, *, accounts: bool = False
) -> Engine | TableJoin:
    """What joins inputs that end and are read once: DuckDB if that is faster, otherwise an engine (see `engine_for`).

    Raises ConfigurationError if the query's rows can only come from Kafka.
    """
    engine = partial(engine_for, query, workers, threads, accounts=accounts)
    if workers is not None or not is_joined_by_duckdb(query):
        return engine()
    check_without_kafka(query)
    return TableJoin(query, threads or cores(), engine)


def engine_for(
    query: Query, workers: int | None = None, threads: int | None = None, *, accounts: bool = False
) -> Engine:
    """An engine that searches its window in `workers` parts; by default in the layout's number, or in one.

    threads: how many share the work of a frame; by default one for each core that this process may use
    accounts: whether to measure what the layout costs, if a distribution for comparisons is installed

    Raises ConfigurationError if the query's rows can only come from Kafka.
    """
    from spojoin.embedded.engine import Engine  # noqa: PLC0415  (loads compiled kernels, which a table join doesn't need)

    watch_compiling()
    check_without_kafka(query)
    workers = workers or query.layout.workers or 1
    observe = next((each.observer for each in evaluations()), None) if accounts else None
    return Engine(query, frame_sizes(workers), threads=threads or cores(), observe=observe)


def frame_sizes(workers: int) -> RouterConfig:
    """The sizes of frames and batches for runs over files, with `workers` parts of the window."""
    return RouterConfig("embedded", workers, **FRAMES, credits_frames=UNLIMITED)


def with_order(query: Query) -> Query:
    """The query, ordered by event time if it has two inputs: there is no order of arrival between two files.

    Rows that are joined with all rows need no order. Raises ConfigurationError if a stream has no time column.
    """
    if query.is_of_one_input or query.window.holds_all:
        return query
    for stream in query.streams:
        if stream.time is None:
            raise ConfigurationError(
                f"stream {stream.name!r} has no time column, which puts the rows of two inputs in order: "
                "add 'time: <column>' to both streams of the query"
            )
    return dataclasses.replace(query, order=dataclasses.replace(query.order, by=Order.EVENT_TIME))


def _progress(files: Sequence[InputFile], engine: Engine | TableJoin) -> RunProgress:
    fraction = sum(file.reader.fraction for file in files) / len(files)
    return RunProgress(fraction, engine.tuples, engine.matches, sum(engine.rejected.values()))


def feed_inputs(
    engine: Engine | TableJoin, files: Sequence[InputFile], *, refuses: bool = True
) -> Iterator[tuple[InputFile, Iterator[pa.RecordBatch]]]:
    """Feed tables, then streams at a balanced pace. Yields each file that was read with its results to exhaust.

    refuses: whether rows of a table that can't be used are refused like those of streams; otherwise BadData is raised
    """
    for file in files:
        if file.stream.table is not None:
            batch, malformed = rows_and_malformed(file) if refuses else (whole_table(file), None)
            yield file, engine.load(batch, table_name(file), malformed)
    for file, batch in read_balanced([file for file in files if file.stream.table is None]):
        if batch is None:
            yield file, engine.end(file.index)
        else:
            yield file, engine.feed(file.index, batch, file.refused, file.places(batch.num_rows))


class _Results(WholeOrNothing):
    """The output of results. It is opened with the columns of the first batch: the engine may have added some."""

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


class RefusedRows(WholeOrNothing):
    """Turns the engine's dead letters into rejects. Lines that are no rows have the reason MALFORMED."""

    def __init__(self, files: Sequence[InputFile], writer: RejectsWriter | RejectsOfReadings | None) -> None:
        self._files = files
        self._writer = writer
        self._reasons = RefusalCounts()

    def write(self, letters: Iterable[DeadLetter]) -> None:
        """Count refused rows, and write them if there is a file for them."""
        rejects = [self._reject(letter) for letter in letters]
        self._reasons.note(rejects)
        if self._writer:
            self._writer.write(rejects)

    def write_rejects_of(self, rows: ArrowRows) -> None:
        """Also write the rejects of other rows, if there is a file for them."""
        if isinstance(self._writer, RejectsWriter):
            rows.write_rejects(self._writer)

    def figures(self) -> dict[str, Any]:
        """The figures of refused rows of all files; see `RefusalCounts.figures`."""
        return self._reasons.figures(sum(file.rows for file in self._files))

    def _reject(self, letter: DeadLetter) -> Reject:
        file = self._files[letter.stream]
        is_shown = self._writer is not None or letter.offset in file.reader.malformed
        row = file.row(letter.offset) if is_shown else None
        place = file.place(letter.offset)
        if not isinstance(row, str):
            return Reject(place, file.stream.name, letter.reason, letter.detail, row)
        detail = file.reader.malformed_because.pop(letter.offset, None)
        if detail is None:
            detail = f"the line is no row with the columns of {file.reader.path.name}"
        return Reject(place, file.stream.name, MALFORMED, detail, row)

    def close(self) -> None:
        """Close the file, if there is one."""
        if isinstance(self._writer, RejectsWriter):
            self._writer.close()

    def abandon(self, error: BaseException) -> None:
        """Close the file as it is, if there is one."""
        if isinstance(self._writer, RejectsWriter):
            self._writer.abandon(error)


class JoinRows(ArrowRows):
    """The rows of a statement's join. threads: how many share the work; by default one for each core."""

    def __init__(self, found: BareStatement, threads: int | None = None) -> None:
        super().__init__(result_schema(found.query, []), found.sources.values())
        self._found = found
        self._threads = threads

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        query = self._found.query
        sources = self._found.sources
        inputs = open_inputs(query, sources, sorts=may_be_sorted(query) and not is_sorted(query, sources))
        refused = RefusedRows(inputs, self.rejects.begin())
        with closing(joiner_for(query, threads=self._threads)) as engine:
            try:
                for _, found in feed_inputs(engine, inputs):
                    yield from found
                    refused.write(engine.take_rejects())
                yield from engine.finish()
            finally:
                refused.write(engine.take_rejects())
                self._note(refused.figures())


class _Meter:
    """Measures the time from the first rows to the end, and from the moment when all windows are full."""

    def __init__(self, query: Query) -> None:
        self._window = query.window
        self._started = time.perf_counter()
        self._full: tuple[float, int] | None = None

    def note(self, files: Sequence[InputFile], tuples: int) -> None:
        if self._full is None and all(
            self._window.is_full(file.rows, file.first_time_us, file.last_time_us) for file in files
        ):
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


def _rate(tuples: int, seconds: float) -> float | None:
    return round(tuples / seconds, 1) if tuples and seconds > 0 else None


def peak_rss_bytes() -> int:
    """The most memory that this process has held; Linux counts in KiB, macOS in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@contextmanager
def on_compiling(show: Callable[[], object]) -> Iterator[None]:
    """Within the block, call `show` whenever the compilation of a kernel begins."""
    _compile_listeners.append(show)
    try:
        yield
    finally:
        _compile_listeners.remove(show)


@cache
def watch_compiling() -> None:
    """Call what `on_compiling` has registered, from now on. Loads the compiler."""
    from numba.core.event import Event, Listener, register  # noqa: PLC0415  (half a second, which engines take anyway)

    class Told(Listener):
        def on_start(self, event: Event) -> None:
            for show in _compile_listeners:
                show()

        def on_end(self, event: Event) -> None:
            """Nothing: the next batch's figures replace what was shown."""

    register("numba:compile", Told())  # type: ignore[no-untyped-call]
