"""`spojoin explain`: how a query will run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from spojoin.cli.commands.common import Debug, QueryFile, say_notes
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options


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

        from spojoin.cli.samples import read_samples
        from spojoin.explain.footprint import SetupSizes
        from spojoin.explain.plan import explain as plan
        from spojoin.explain.plan import render
        from spojoin.query.load import load_query

        query = load_query(options.query)
        say_notes(query)
        samples = read_samples(query, options.sample, options.rows) if options.sample else None
        render(plan(query, samples, SetupSizes(workers=options.workers)), Console())
