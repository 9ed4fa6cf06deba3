"""What `spojoin up` can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from spojoin.cli.commands.common import Debug, QueryFile
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.packing import TOGETHER


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """What to serve, with which servers and services."""

    query: QueryFile
    packing: Annotated[
        str,
        typer.Option(
            metavar="together|apart|GROUPS",
            help="Which roles share a process: all of them, none, or groups such as 'router+sink mutable+logical-and'.",
        ),
    ] = TOGETHER
    standbys: Annotated[
        bool, typer.Option("--standbys", help="Run a second instance of each process, which takes over in its place.")
    ] = False
    workers: Annotated[
        int | None, typer.Option(min=1, help="PO-Join workers; default the layout's number, or 1 together and 2 apart.")
    ] = None
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the input topics that are created.")] = 1
    bootstrap: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="A Kafka that is already running.")] = None
    redis: Annotated[str | None, typer.Option(metavar="URL", help="A Redis that is already running.")] = None
    port: Annotated[int | None, typer.Option(help="The port of the Kafka that is started.")] = None
    results: Annotated[
        str, typer.Option(metavar="frames|json|avro|json-schema", help="The format of the results topic.")
    ] = "frames"
    registry: Annotated[
        str | None, typer.Option(metavar="URL", help="A schema registry, for inputs and results with its schemas.")
    ] = None
    logs: Annotated[Path | None, typer.Option(help="Keep the services' logs in this folder.")] = None
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace another query that is served there under this name.")
    ] = False
    adopt: Annotated[
        str, typer.Option(metavar="OWNER", help="Take over the query's name there from an owner that is gone for good.")
    ] = ""
    backfill: Annotated[
        Backfill, typer.Option(help="With --replace: how far back the inputs are reread to fill the windows.")
    ] = Backfill.WINDOW
    joiners: Annotated[int | None, typer.Option(min=1, help="Mutable joiners; default one per predicate.")] = None
    debug: Debug = False
