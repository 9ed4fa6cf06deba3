"""`spojoin topics`, `send` and `results`: a query's topics, rows into its inputs and results out of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from spojoin.cli.commands.common import Bootstrap, Debug, QueryFile, stream_files
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
        from spojoin.query.load import load_query
        from spojoin.runtime.settings import load_settings

        settings = load_settings(
            query_file=options.query,
            bootstrap_servers=options.bootstrap,
            workers=options.workers_max,
            workers_max=options.workers_max,
        )
        for name, count in make_topics(load_query(options.query), settings, options.partitions).items():
            typer.echo(f"{name}: {count} partition{'' if count == 1 else 's'}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """Which files to push, and where to."""

    query: QueryFile
    inputs: Annotated[
        list[str], typer.Option("--input", "-i", metavar="STREAM=FILE", help="CSV, JSON lines or Parquet.")
    ]
    bootstrap: Bootstrap = "127.0.0.1:9092"
    debug: Debug = False


@with_options
def send(options: SendOptions) -> None:
    """Push the rows of files to a query's input topics, as Arrow batches.

    Lines that are no rows are left out and counted, and the exit status is then 1.

    Example:

        spojoin send query.yaml -i trips=trips.csv --bootstrap 127.0.0.1:9092
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.cli.topics import send_files
        from spojoin.query.load import load_query
        from spojoin.runtime.settings import load_settings

        settings = load_settings(query_file=options.query, bootstrap_servers=options.bootstrap)
        sent = send_files(load_query(options.query), stream_files(options.inputs), settings)
        typer.echo(", ".join(f"{rows:,} rows to {topic}" for topic, rows in sent.rows.items()))
        if sent.malformed:
            sentence = f"{sent.malformed:,} lines are no rows and weren't sent (first: {sent.first})"
            typer.echo(f"spojoin: {sentence}", err=True)
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
        from spojoin.query.load import load_query
        from spojoin.runtime.settings import load_settings

        settings = load_settings(query_file=options.query, bootstrap_servers=options.bootstrap)
        print_results(load_query(options.query), settings, sys.stdout.buffer, is_following=options.follow)
