"""`loadgen demo`, and `loadgen fetch`, which prepares it."""

# --help prints a command's docstring with its blank lines. Commands import modules when they run, so help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from loadgen.errors import one_sentence
from loadgen.load import options
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of `loadgen demo`."""

    report: Annotated[Path, typer.Option(help="The folder for report.json, report.html and logs.")] = Path("report")
    only: Annotated[list[str] | None, typer.Option(help="Only this query of loadgen/queries; repeatable.")] = None
    all_queries: Annotated[
        bool, typer.Option("--all", help="All queries, and one of them once more as a backfill: some four minutes.")
    ] = False
    debug: options.Debug = False


@with_options
def demo(asked: DemoOptions) -> None:
    """Stream real flights from PySpark through Kafka and all services, and prove the result complete.

    The demo plays one query in both packings, with a process for each service and with one for all, and compares
    results. Needs Java 17 and the extras: pip install 'spojoin[local,spark]'. The first time it fetches Kafka's jars.

    Example:

        loadgen demo --report report
    """
    with one_sentence(is_debug=asked.debug):
        from rich.console import Console

        from loadgen.demo.jobs import chosen_jobs
        from loadgen.demo.main import demo as play

        jobs = chosen_jobs(asked.only or (), is_all=asked.all_queries)
        raise typer.Exit(play(asked.report, Console(), jobs))


def fetch(debug: options.Debug = False) -> None:
    """Fetch Spark's Kafka connector from Maven Central, once; `spojoin fetch` fetches Kafka's jars.

    Example:

        loadgen fetch
    """
    with one_sentence(is_debug=debug):
        from loadgen.load.spark import connector

        typer.echo(f"Spark: {connector(progress=typer.echo)}")
