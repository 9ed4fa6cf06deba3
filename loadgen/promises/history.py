"""Section `history`: Parquet files by `spojoin.spark` on two cores, against `spojoin run` with one thread."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import spojoin.spark
from loadgen.bench.measurement import Measurement, at_least, at_most
from loadgen.load.spark import start
from loadgen.promises.data import FLIGHTS, Columns, check_counts, columns, expected_counts, self_join_text
from loadgen.promises.sizes import Context
from spojoin.local.usage import family_cpu_s
from spojoin.spark.api import plan_history
from spojoin.spark.files import write_parquet
from spojoin.spark.history_query import frame_query
from spojoin.spark.session import settings_of

CORES = 2
SPEEDUP_BAR = at_least(1.6)
PARTITIONS_BAR = at_most(1.15)
FEW, MANY = 4, 64
#: The number of runs of Spark and `spojoin run`; the best one counts.
ROUNDS = 2
#: The number of results to compare with a scan.
CHECKED = 8
#: The rows of a timed nested loop, and the number of last rows that probe.
LOOPED_ROWS, LOOPED_PROBES = 200_000, 2_000
ROW_GROUP = 250_000


def measure(context: Context) -> Iterator[Measurement]:
    """The speedup, the cost of many files, and nested loops over the same rows."""
    work = _Work.of(context)
    context.say("Spark starts, and joins a few rows, which compiles and isn't timed")
    spark = start(cores=CORES, name="spojoin-bench", progress=lambda _: None)
    try:
        work.by_spark(spark, work.written(work.data[: work.rows // 20], 2, "few"))
        yield from _speedup(context, work, spark)
        yield from _nested_loops(context, work, spark)
    finally:
        spark.stop()


@dataclass(frozen=True, slots=True)
class _BySpark:
    """Seconds, processor time of Spark and its tasks, the number of joining tasks, and the results' place.

    cpu_s: None if the system doesn't report it
    """

    seconds: float
    cpu_s: float | None
    tasks: int
    output: Path


class _ByRun(NamedTuple):
    """Seconds since the first row, and processor time of the whole process."""

    seconds: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class _Work:
    """Repeated flights with their numbers, and the counting query."""

    folder: Path
    data: Columns
    window: int

    @classmethod
    def of(cls, context: Context) -> _Work:
        sizes = context.sizes
        found = cls(context.scratch, columns(FLIGHTS, sizes.history_rows), sizes.window_small)
        found.query.write_text(self_join_text(found.window, found.window // 10))
        return found

    @property
    def rows(self) -> int:
        return len(self.data)

    @property
    def query(self) -> Path:
        return self.folder / "query.yaml"

    def written(self, data: Columns, files: int, name: str) -> Path:
        """The rows as Parquet in some files."""
        folder = self.folder / name
        folder.mkdir()
        each = -(-len(data) // files)
        for number in range(files):
            part = data[number * each : (number + 1) * each]
            ids = pa.array(range(number * each, number * each + len(part)), pa.int64())
            pq.write_table(
                part.table().append_column("id", ids), folder / f"part-{number:03}.parquet", row_group_size=ROW_GROUP
            )
        return folder

    def by_spark(self, spark: SparkSession, source: Path) -> _BySpark:
        """Count, plan, join and write Parquet, as a backfill does."""
        output, java = source.with_name(f"{source.name}-counts"), _java_pid(spark)
        began, used = time.perf_counter(), family_cpu_s(java) or 0.0
        asked = frame_query(self.query, (spark.read.parquet(str(source)),))
        history = plan_history(spark, asked, "id", None, settings_of(spark))
        write_parquet(history, str(output), replaces=True)
        seconds, cpu_s = time.perf_counter() - began, family_cpu_s(java)
        return _BySpark(seconds, None if cpu_s is None else cpu_s - used, len(history.shares), output)

    def through_rows(self, spark: SparkSession, source: Path) -> float:
        """Seconds for the same with Spark's own writer, which gets results as rows."""
        began = time.perf_counter()
        output = source.with_name(f"{source.name}-rows")
        frame = spark.read.parquet(str(source))
        spojoin.spark.join(frame, None, self.query, order_by="id").write.mode("overwrite").parquet(str(output))
        return time.perf_counter() - began

    def by_run(self, source: Path) -> _ByRun:
        """Run `spojoin run` with one thread, from Parquet to Parquet."""
        report, output = self.folder / "report.json", self.folder / "counts.parquet"
        command = [sys.executable, "-m", "spojoin.cli.main", "run", str(self.query), "--input"]
        command += [f"rows={source}/part-*.parquet", "--output", str(output), "--threads", "1"]
        before = _ended_children_s()
        subprocess.run([*command, "--report", str(report), "--quiet"], check=True, capture_output=True)
        return _ByRun(float(json.loads(report.read_bytes())["seconds"]), _ended_children_s() - before)


def _speedup(context: Context, work: _Work, spark: SparkSession) -> Iterator[Measurement]:
    few, many = (work.written(work.data, files, f"rows-{files}") for files in (FEW, MANY))
    context.say(f"spojoin run with one thread, {work.rows:,} tuples, before and after Spark")
    before = work.by_run(few)
    rounds = [[work.by_spark(spark, source) for source in (few, many)] for _ in range(ROUNDS)]
    found, of_many = (min(runs, key=attrgetter("seconds")) for runs in zip(*rounds, strict=True))
    through_rows = work.through_rows(spark, few)
    alone = min(before, work.by_run(few))
    check_counts(work.data, work.window, work.window // 10, pq.read_table(found.output), CHECKED)
    by_spark, by_run = found.seconds, alone.seconds
    note = (
        f"{work.rows:,} flights, window {work.window:,}; {by_run:.1f} s alone, {by_spark:.1f} s by two tasks at a time"
    )
    yield Measurement("Spark against spojoin run with one thread", by_run / by_spark, "times", SPEEDUP_BAR, note)
    yield Measurement("rows by Spark", work.rows / by_spark, "tuples/s")
    if found.cpu_s is not None:
        yield _summed(work, found.cpu_s, found.tasks, alone)
    yield Measurement("results as rows of a DataFrame, of that time", through_rows / by_spark, "times")
    name = f"the time from {MANY} files, of that from {FEW}"
    yield Measurement(name, of_many.seconds / by_spark, "times", PARTITIONS_BAR, "shares are chosen alike")


def _summed(work: _Work, cpu_s: float, tasks: int, alone: _ByRun) -> Measurement:
    """The total processor time, which executors on more cores would share."""
    note = (
        f"Spark and {tasks} tasks, {cpu_s / tasks:.2f} s for each, which more executors share; "
        f"{alone.cpu_s / work.rows * 1e6:.2f} us by spojoin run"
    )
    return Measurement("CPU of all tasks, summed", cpu_s / work.rows * 1e6, "us a tuple", note=note)


def _nested_loops(context: Context, work: _Work, spark: SparkSession) -> Iterator[Measurement]:
    """Spark's and DuckDB's joins with the window as a condition, for the last rows only: all rows cost the same."""
    looped = min(LOOPED_ROWS, work.rows)
    small = _Work(work.folder, work.data[:looped], work.window)
    source = small.written(small.data, 1, "rows-looped")
    own = small.by_spark(spark, source).seconds
    probes = min(LOOPED_PROBES, looped // 2)
    statement = _windowed(small.window, looped - probes)
    expected = sum(sum(expected_counts(small.data, seq, small.window, 1)) for seq in range(looped - probes, looped))
    for name, found in (("Spark's own join", _of_spark(spark, source)), ("DuckDB", _of_duckdb(source))):
        context.say(f"{name}, the last {probes:,} of {looped:,} rows")
        began = time.perf_counter()
        pairs = found(statement)
        each = (time.perf_counter() - began) / probes
        if pairs != expected:
            raise AssertionError(f"{name} finds {pairs} pairs, a scan {expected}")
        note = f"{each * 1e6:,.0f} us a row, of {probes:,}; {own / looped * 1e6:.2f} us by spojoin.spark, of {looped:,}"
        yield Measurement(f"{name}, a row", each / (own / looped), "times spojoin.spark", note=note)


def _java_pid(spark: SparkSession) -> int:
    java: Any = spark.sparkContext._jvm
    return int(java.java.lang.ProcessHandle.current().pid())


def _ended_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _windowed(window: int, first: int) -> str:
    """Pairs of the rows from `first` on with earlier ones in a window with a slide of 1, in any order of sides."""
    return (
        "SELECT count(*) FROM rows p JOIN rows q "
        f"ON q.id < p.id AND q.id >= p.id - {window} AND ((p.a > q.a AND p.b < q.b) OR (q.a > p.a AND q.b < p.b)) "
        f"WHERE p.id >= {first}"
    )


def _of_spark(spark: SparkSession, source: Path) -> Callable[[str], int]:
    spark.read.parquet(str(source)).createOrReplaceTempView("rows")
    return lambda statement: int(spark.sql(statement).collect()[0][0])


def _of_duckdb(source: Path) -> Callable[[str], int]:
    connection = duckdb.connect(config={"threads": CORES})
    connection.execute(f"CREATE TABLE rows AS FROM '{source}/*.parquet'")
    return lambda statement: int(connection.execute(statement).fetchall()[0][0])
