"""`spojoin validate`, `explain`, `methods` and `layouts`: queries before they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from spojoin.cli.errors import one_sentence
from spojoin.cli.options import Debug, QueryFile, say_notes, with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """What to check, and against what."""

    query: QueryFile
    deployed: Annotated[
        bool,
        typer.Option("--deployed", help="Check the query as the services would run it, and their SPOJOIN_ variables."),
    ] = False
    running: Annotated[
        bool,
        typer.Option(
            "--running",
            help="Also ask Kafka whether another query is served under this name, or the name has another owner.",
        ),
    ] = False
    coming: Annotated[
        bool, typer.Option("--coming", help="With --running: accept that Kafka, or its user, does not exist yet.")
    ] = False
    partials: Annotated[
        int | None, typer.Option(min=1, help="Partitions of the topic of partials, if another program creates it.")
    ] = None
    named: Annotated[
        list[str] | None,
        typer.Option(help="A name that another program read in the query: the query's or a stream's; repeatable."),
    ] = None
    debug: Debug = False


@with_options
def validate(options: ValidateOptions) -> None:
    """Check a query: print its name if it is valid, otherwise the line, the mistake and what was expected.

    Examples:

        spojoin validate query.yaml

        SPOJOIN_WORKERS=4 spojoin validate query.yaml --deployed

        SPOJOIN_BOOTSTRAP_SERVERS=kafka:9092 spojoin validate query.yaml --deployed --running
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.cli.checks import check_names, check_partials, check_running, deployed_settings, load_deployed
        from spojoin.query.load import load_query

        is_coming = options.coming
        asked = deployed_settings(options.query, is_coming=is_coming) if options.deployed or options.running else None
        loaded = load_deployed(options.query, asked) if asked and options.deployed else load_query(options.query)
        check_partials(loaded, options.partials)
        check_names(loaded, options.named or ())
        if asked and options.running and (unknown := check_running(loaded, asked, is_coming=is_coming)):
            typer.echo(f"{loaded.name}: {unknown}", err=True)
        say_notes(loaded)
        typer.echo(f"{loaded.name}: the query is valid")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """What to explain, for which rows and how many workers."""

    query: QueryFile
    sample: Annotated[
        list[str] | None,
        typer.Option(
            "--sample", "-s", metavar="[STREAM=]FILE", help="Measure selectivities on the first rows of a file."
        ),
    ] = None
    rows: Annotated[int, typer.Option(min=1, help="Rows to sample from each file.")] = 10_000
    workers: Annotated[int, typer.Option(min=1, help="PO-Join workers to plan for.")] = 2
    columns: Annotated[int, typer.Option(min=1, help="Columns of workers, which divide the window.")] = 1
    debug: Debug = False


@with_options
def explain(options: ExplainOptions) -> None:
    """Show how a query will run: predicates, indexes, batches, window bounds, topics and state in bytes.

    Examples:

        spojoin explain query.yaml

        spojoin explain query.yaml --sample trips.csv

        spojoin explain cross.yaml -s orders=orders.csv -s quotes=quotes.parquet
    """
    with one_sentence(is_debug=options.debug):
        from rich.console import Console

        from spojoin.cli.checks import read_samples
        from spojoin.explain.footprint import SetupSizes
        from spojoin.explain.plan import explain as plan
        from spojoin.explain.plan import render
        from spojoin.query.load import load_query

        query = load_query(options.query)
        say_notes(query)
        samples = read_samples(query, options.sample, options.rows) if options.sample else None
        render(
            plan(query, samples, SetupSizes(workers=options.workers, columns=min(options.columns, options.workers))),
            Console(),
        )


def methods() -> None:
    """List the methods by which `spojoin run` can search a window, with options and sources.

    Example:

        spojoin run query.yaml -i trips=trips.csv -o matches.jsonl --method scan
    """
    from rich.console import Console

    from spojoin.cli.checks import methods_table

    Console().print(methods_table())


def layouts() -> None:
    """List the layouts by which the work can be spread over workers, with options and sources.

    `spojoin run --report` measures every layout by the same figures: balance of the work, messages and bytes, memory,
    latency and completeness.

    Example:

        spojoin run query.yaml -i trips=trips.csv -o matches.jsonl --layout scale_join --workers 4
    """
    from rich.console import Console

    from spojoin.cli.checks import layouts_table

    Console().print(layouts_table())
