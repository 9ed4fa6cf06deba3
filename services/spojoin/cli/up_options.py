"""What `spojoin up` can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from spojoin.cli.commands.common import Debug, QueryFile
from spojoin.protocol.backfill import Backfill


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """What to serve, with which servers and services."""

    query: QueryFile
    workers: Annotated[
        int | None, typer.Option(min=1, help="PO-Join workers; default the number of the query's layout, or 2.")
    ] = None
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of input topics that are made.")] = 1
    bootstrap: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="A Kafka that runs already.")] = None
    redis: Annotated[str | None, typer.Option(metavar="URL", help="A Redis that runs already.")] = None
    port: Annotated[int | None, typer.Option(help="Port of the Kafka that is started.")] = None
    results: Annotated[str, typer.Option(metavar="frames|json", help="Form of the results topic.")] = "frames"
    logs: Annotated[Path | None, typer.Option(help="Keep the services' logs in this folder.")] = None
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of another query served there under this name.")
    ] = False
    backfill: Annotated[
        Backfill, typer.Option(help="With --replace: how far back the inputs are read again to fill the windows.")
    ] = Backfill.WINDOW
    joiners: Annotated[int | None, typer.Option(min=1, help="Mutable joiners; default one a predicate.")] = None
    debug: Debug = False
