"""`spojoin topics`, `send`, `results`, `replay-dead-letters` and `restore`: what Kafka holds of a query."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer

from spojoin.cli.errors import one_sentence
from spojoin.cli.options import Bootstrap, Csv, Debug, QueryFile, stream_files, with_options
from spojoin.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsOptions:
    """Whose topics to make, and for how many workers; or what to do with those that are there."""

    query: QueryFile
    bootstrap: Bootstrap = "127.0.0.1:9092"
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Create the input topics as well, with this number of partitions.")
    ] = None
    workers_max: Annotated[
        int | None, typer.Option(min=1, help="The largest number of PO-Join workers to plan for.")
    ] = None
    logical_ands: Annotated[int | None, typer.Option(min=1, help="The number of logical ANDs to plan for.")] = None
    intakes: Annotated[int | None, typer.Option(min=0, help="The number of intakes to plan for.")] = None
    sinks: Annotated[
        int | None, typer.Option(min=1, help="The number of sinks to plan for, each with a partition of the results.")
    ] = None
    standbys: Annotated[
        bool, typer.Option("--standbys", help="Also create the topic that only services with a second instance need.")
    ] = False
    list_: Annotated[bool, typer.Option("--list", help="Show the existing topics, and create none.")] = False
    apply: Annotated[
        bool, typer.Option("--apply", help="Create missing topics, and apply the settings to existing ones.")
    ] = False
    delete: Annotated[bool, typer.Option("--delete", help="Delete the internal topics of a query that has ended.")] = (
        False
    )
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="results|dlq|inputs|tables", help="With --delete: delete topics of this kind as well."),
    ] = None
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --delete: do not ask.")] = False
    force: Annotated[
        bool,
        typer.Option("--force", help="With --delete: delete even if no Redis can tell whether the query is served."),
    ] = False
    redis: Annotated[
        str | None,
        typer.Option(
            envvar=["SPOJOIN_REDIS_URL", "REDIS_URL"], metavar="URL", help="The Redis that services report to."
        ),
    ] = None
    debug: Debug = False


@with_options
def topics(options: TopicsOptions) -> None:
    """Create a query's topics if the services may not do so, and add partitions for more workers.

    Also lists the topics, changes how they are kept, and deletes them when the query has ended. The connection to Kafka
    comes from the services' variables, such as SPOJOIN_KAFKA, or their settings file.

    Examples:

        spojoin topics query.yaml --bootstrap kafka:9092 --workers-max 8

        spojoin topics query.yaml --bootstrap kafka:9092 --list

        spojoin topics query.yaml --bootstrap kafka:9092 --delete --also results --also dlq
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.cli.topics import bring_topics, delete_topics, list_topics
        from spojoin.local.reachable import check_kafka_takes
        from spojoin.query.load import load_query
        from spojoin.runtime.settings import load_settings

        _check_one_of(options)
        settings = load_settings(
            query_file=options.query,
            bootstrap_servers=options.bootstrap,
            workers=options.workers_max,
            workers_max=options.workers_max,
            redis_url=options.redis,
            standbys=options.standbys or None,
            logical_ands=options.logical_ands,
            sinks=options.sinks,
            intakes=options.intakes,
        )
        query = load_query(options.query)
        check_kafka_takes(options.bootstrap, settings.kafka_properties())
        if options.list_:
            list_topics(query, settings)
        elif options.delete:
            delete_topics(query, settings, options.also or (), is_sure=options.yes, is_forced=options.force)
        else:
            bring_topics(query, settings, options.partitions, applies=options.apply)


def _check_one_of(options: TopicsOptions) -> None:
    if sum((options.list_, options.apply, options.delete)) > 1:
        raise ConfigurationError("--list, --apply and --delete exclude each other: give one of them")
    if not options.delete and (options.also or options.yes or options.force):
        raise ConfigurationError("--also, --yes and --force belong to --delete: give it, too")


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
    """Push the rows of files to a query's input topics, as Arrow batches, and report the outcome.

    Rows keep all columns of the schema, so another query may read more of them than this one does.
    Lines that are no rows are left out and counted. The exit status is 1 if there are any, or if rows are refused.

    Examples:

        spojoin send query.yaml -i trips=trips.csv --bootstrap 127.0.0.1:9092

        spojoin send query.yaml --end
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.cli.send import check_files, send_files, sentences
        from spojoin.embedded.input_options import csv_by_texts, with_csv
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Whose dead letters, and which."""

    query: QueryFile
    bootstrap: Bootstrap = "127.0.0.1:9092"
    reason: Annotated[
        list[str] | None, typer.Option(help="Only rows refused for this reason, such as late; repeatable.")
    ] = None
    since: Annotated[
        datetime | None, typer.Option(help="Only rows refused since then, in UTC.", show_default=False)
    ] = None
    again: Annotated[bool, typer.Option("--again", help="Also rows that were sent again and refused again.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Send nothing; report what would be sent.")] = False
    debug: Debug = False


@with_options
def replay_dead_letters(options: ReplayOptions) -> None:
    """Send refused rows to their input topics again, each once, and report the outcome.

    The topics of the dead letters record what was sent, so a second call sends only rows that were refused later.

    Examples:

        spojoin replay-dead-letters query.yaml --dry-run

        spojoin replay-dead-letters query.yaml --reason late --since 2026-11-27T08:00:00
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.cli.replay import replay_letters

        since_ms = 0 if options.since is None else int(options.since.replace(tzinfo=UTC).timestamp() * 1000)
        chosen = frozenset(options.reason or ()), since_ms, options.again
        for line in replay_letters(options.query, options.bootstrap, chosen, is_dry=options.dry_run):
            typer.echo(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """Which query goes on, and where."""

    query: QueryFile
    bootstrap: Bootstrap = "127.0.0.1:9092"
    old: Annotated[
        str | None,
        typer.Option("--from", metavar="HOST:PORT", help="The Kafka that the query is moved from, inputs copied."),
    ] = None
    answers_again: Annotated[
        bool,
        typer.Option("--answers-again", help="Accept that answers of one frame come twice if this cannot be avoided."),
    ] = False
    debug: Debug = False


@with_options
def restore(options: RestoreOptions) -> None:
    """Let a query continue where its results end, after internal topics were lost or on another Kafka.

    Windows are filled from the inputs again. The header `spojoin-generation` of results counts up. The connection to
    Kafka comes from the services' variables, such as SPOJOIN_KAFKA, or their settings file.

    Examples:

        spojoin restore query.yaml --bootstrap kafka:9092

        spojoin restore query.yaml --bootstrap new-kafka:9092 --from old-kafka:9092
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.cli.generations import restore_query
        from spojoin.query.load import load_query

        query = load_query(options.query)
        for line in restore_query(query, options.query, options.bootstrap, options.old, options.answers_again):
            typer.echo(line)
