"""`spojoin topics`, `send` and `results`: a query's topics, rows into its inputs and results out of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from spojoin.cli.commands.common import Bootstrap, Csv, Debug, QueryFile, stream_files
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsOptions:
    """Whose topics to make, and for how many workers."""

    query: QueryFile
    bootstrap: Bootstrap = "127.0.0.1:9092"
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Make the input topics as well, with this number of partitions.")
    ] = None
    workers_max: Annotated[
        int | None, typer.Option(min=1, help="The largest number of PO-Join workers to plan for.")
    ] = None
    debug: Debug = False


@with_options
def topics(options: TopicsOptions) -> None:
    """Make a query's topics where the services aren't allowed to, and add partitions where more workers need them.

    The connection to Kafka comes from the services' variables, such as SPOJOIN_KAFKA, or their settings file.

    Example:

        spojoin topics query.yaml --bootstrap kafka:9092 --workers-max 8
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.cli.topics import make_topics
        from spojoin.local.reachable import check_kafka_takes
        from spojoin.query.load import load_query
        from spojoin.runtime.settings import load_settings

        settings = load_settings(
            query_file=options.query,
            bootstrap_servers=options.bootstrap,
            workers=options.workers_max,
            workers_max=options.workers_max,
        )
        query = load_query(options.query)
        check_kafka_takes(options.bootstrap, settings.kafka_properties())
        for name, count in make_topics(query, settings, options.partitions).items():
            typer.echo(f"{name}: {count} partition{'' if count == 1 else 's'}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """Which files to push, where to, and whether more follows."""

    query: QueryFile
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="STREAM=FILE",
            help="A CSV, JSON lines, Parquet or Arrow file; a pattern in quotes reads several as one; - reads standard "
            "input.",
        ),
    ] = None
    csv: Csv = None
    bootstrap: Bootstrap = "127.0.0.1:9092"
    ends: Annotated[
        bool | None,
        typer.Option(
            "--end/--follow",
            help="Whether the inputs end, so that event time no longer waits for them, or more rows follow; by default "
            "they end. Without files --end ends all inputs.",
            show_default=False,
        ),
    ] = None
    debug: Debug = False


@with_options
def send(options: SendOptions) -> None:
    """Push the rows of files to a query's input topics, as Arrow batches, and say what became of them.

    Lines that are no rows are left out and counted. Where any, or rows that the query refuses, the exit status is 1.

    Examples:

        spojoin send query.yaml -i trips=trips.csv --bootstrap 127.0.0.1:9092

        spojoin send query.yaml --end
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.cli.send import check_files, send_files, sentences
        from spojoin.embedded.source_options import csv_by_texts, with_csv
        from spojoin.errors import ConfigurationError
        from spojoin.local.reachable import check_kafka_takes
        from spojoin.query.load import load_query
        from spojoin.runtime.settings import load_settings

        if not (options.inputs or options.ends):
            raise ConfigurationError("nothing to send: give -i STREAM=FILE, or --end to end all inputs")
        settings = load_settings(query_file=options.query, bootstrap_servers=options.bootstrap)
        ends = options.ends is not False
        paths = stream_files(options.inputs or ())
        query = with_csv(load_query(options.query), csv_by_texts(options.csv or ()))
        check_files(query, paths)
        check_kafka_takes(options.bootstrap, settings.kafka_properties())
        sent = send_files(query, paths, settings, ends=ends, say=lambda text: typer.echo(text, err=True))
        for sentence in sentences(sent, f"{options.query} --bootstrap {options.bootstrap}"):
            typer.echo(sentence)
        if sent.malformed:
            sentence = f"{sent.malformed:,} lines are no rows and weren't sent (first: {sent.first})"
            typer.echo(f"spojoin: {sentence}", err=True)
        if sent.is_refused:
            raise typer.Exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsOptions:
    """Whose results to print, and until when."""

    query: QueryFile
    bootstrap: Bootstrap = "127.0.0.1:9092"
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more results at the end, until Ctrl-C.")] = (
        False
    )
    debug: Debug = False


@with_options
def results(options: ResultsOptions) -> None:
    """Print a query's results from its topic, as JSON lines.

    Example:

        spojoin results query.yaml --follow
    """
    with one_sentence(is_debug=options.debug):
        import sys

        from spojoin.cli.topics import print_results
        from spojoin.local.reachable import check_kafka_takes
        from spojoin.query.load import load_query
        from spojoin.runtime.settings import load_settings

        settings = load_settings(query_file=options.query, bootstrap_servers=options.bootstrap)
        query = load_query(options.query)
        check_kafka_takes(options.bootstrap, settings.kafka_properties())
        print_results(query, settings, sys.stdout.buffer, is_following=options.follow)
