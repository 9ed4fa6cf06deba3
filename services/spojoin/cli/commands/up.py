"""`spojoin up`: a query served on this machine."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from spojoin.cli.commands.common import Debug, QueryFile
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options
from spojoin.protocol.backfill import Backfill


@dataclass(frozen=True, slots=True, kw_only=True)
class UpCommandOptions:
    """What to serve, with which servers and services."""

    query: QueryFile
    workers: Annotated[int | None, typer.Option(min=1, help="PO-Join workers; default the layout's number, or 2.")] = (
        None
    )
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the input topics that are created.")] = 1
    bootstrap: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="A Kafka that is already running.")] = None
    redis: Annotated[str | None, typer.Option(metavar="URL", help="A Redis that is already running.")] = None
    port: Annotated[int | None, typer.Option(help="The port of the Kafka that is started.")] = None
    results: Annotated[str, typer.Option(metavar="frames|json", help="The format of the results topic.")] = "frames"
    logs: Annotated[Path | None, typer.Option(help="Keep the services' logs in this folder.")] = None
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace another query that is served there under this name.")
    ] = False
    backfill: Annotated[
        Backfill, typer.Option(help="With --replace: how far back the inputs are reread to fill the windows.")
    ] = Backfill.WINDOW
    joiners: Annotated[int | None, typer.Option(min=1, help="Mutable joiners; default one per predicate.")] = None
    debug: Debug = False


@with_options
def up(options: UpCommandOptions) -> None:
    """Serve a query on this machine until Ctrl-C: Kafka, Redis and every service, each in its own process.

    Then push rows as JSON, CSV lines or Arrow batches to the topics that it prints, from any program or with
    `spojoin send`, and read the results with `spojoin results`.

    Examples:

        spojoin up query.yaml

        spojoin up query.yaml --workers 4 --bootstrap kafka:9092 --redis redis://redis:6379/0

        spojoin up changed.yaml --replace --bootstrap kafka:9092 --redis redis://redis:6379/0
    """
    with one_sentence(is_debug=options.debug):
        from rich.console import Console

        from spojoin.cli.up import UpOptions, serve

        named = {field.name: getattr(options, field.name) for field in fields(UpOptions)}
        serve(options.query, UpOptions(**named), Console())
