"""What `spojoin backfill` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from spojoin.cli.commands.common import Debug, QueryFile, Quiet


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillOptions:
    """Which history is answered, how far, by what, and where to."""

    query: QueryFile
    sources: Annotated[
        list[str],
        typer.Option(
            "--from",
            metavar="[NAME=]PATH",
            help="The history of the query's stream, or of each by name: a file or folder that Spark reads, such as "
            "s3a://lake/trips.",
        ),
    ]
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="PATH", help="Where results go, as a folder of files.")
    ] = None
    until: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|TIME|began",
            help="Answer only rows before this value of the first order column, or before this event time; with "
            "`began`, those before the first row that the generation which is served answers.",
        ),
    ] = None
    order_by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN[,COLUMN]",
            help="The columns that order the rows as they arrived; by event time only for ties, behind it.",
        ),
    ] = None
    format: Annotated[str, typer.Option(help="The history's format, in Spark's words: parquet, csv, json, orc ...")] = (
        "parquet"
    )
    output_format: Annotated[str, typer.Option(help="The format of the results.")] = "parquet"
    mode: Annotated[
        str, typer.Option(metavar="error|overwrite|append", help="What becomes of results that are there.")
    ] = "error"
    shares: Annotated[
        int | None, typer.Option(min=1, help="In how many parts rows are answered; default as many as pay.")
    ] = None
    memory: Annotated[str, typer.Option(help="What a task may take.")] = "2 GiB"
    master: Annotated[
        str | None,
        typer.Option(help="Spark's master; default what spark-submit says, or local[*]: all cores of this machine."),
    ] = None
    conf: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark; repeatable.")] = None
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of Spark's reader; repeatable.")
    ] = None
    bootstrap: Annotated[
        str,
        typer.Option(envvar="SPOJOIN_BOOTSTRAP_SERVERS", metavar="HOST:PORT", help="Kafka, for --until began."),
    ] = "127.0.0.1:9092"
    explain: Annotated[bool, typer.Option("--explain", help="Say how the history would be answered, and end.")] = False
    quiet: Quiet = False
    debug: Debug = False
