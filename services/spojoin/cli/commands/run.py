"""`spojoin run`: files joined in this process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spojoin.cli.errors import one_sentence
from spojoin.cli.options import (
    Csv,
    Debug,
    MaxRejects,
    Output,
    QueryFile,
    Quiet,
    Rejects,
    ResultFormat,
    say_notes,
    stream_files,
    with_options,
)

if TYPE_CHECKING:
    from spojoin.embedded.run_files import RunFiles
    from spojoin.model import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What to join, where results go, and how the window is searched."""

    query: QueryFile
    inputs: Annotated[
        list[str],
        typer.Option(
            "--input",
            "-i",
            metavar="STREAM=FILE",
            help="A CSV, JSON lines, Parquet or Arrow file for each stream; a pattern in quotes, such as "
            "trips='trips-*.csv.gz', reads several as one; - reads standard input.",
        ),
    ]
    output: Output
    format: ResultFormat = None
    csv: Csv = None
    rejects: Rejects = None
    report: Annotated[
        Path | None,
        typer.Option(help="The file of the run's figures, as JSON; with spojoin-loadgen also what each worker cost."),
    ] = None
    max_rejects: MaxRejects = "50%"
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="The number of parts in which the window is searched; default the layout's, or 1."),
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="How many threads share the work; default one for each core. Results stay the same."),
    ] = None
    layout: Annotated[
        str | None, typer.Option(help="How the work is spread over workers; `spojoin layouts` lists them.")
    ] = None
    layout_option: Annotated[
        list[str] | None,
        typer.Option("--layout-option", metavar="NAME=VALUE", help="An option of --layout; repeatable."),
    ] = None
    method: Annotated[str | None, typer.Option(help="How the window is searched; `spojoin methods` lists them.")] = None
    method_option: Annotated[
        list[str] | None,
        typer.Option("--method-option", metavar="NAME=VALUE", help="An option of --method; repeatable."),
    ] = None
    quiet: Quiet = False
    debug: Debug = False


@with_options
def run(options: RunOptions) -> None:
    """Join files in this process: no broker, constant memory.

    A single file is read in its order; two files are merged by event time. Outputs appear whole at the end, or not at
    all. The exit status is 0, 1 if too many rows were refused, 2 for a mistake, 130 after Ctrl-C.

    Examples:

        spojoin run query.yaml -i trips=trips.csv -o matches.jsonl

        spojoin run query.yaml -i trips=trips.parquet -o matches.parquet --rejects refused.jsonl --report report.json

        spojoin run cross.yaml -i orders=orders.csv -i quotes=quotes.parquet -o pairs.parquet

        zcat trips-*.csv.gz | spojoin run query.yaml -i trips=- -o - --format csv > matches.csv
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.cli.run_report import end_with_refused, run_progress
        from spojoin.embedded.refusal_report import RUN, parse_reject_limit
        from spojoin.embedded.run import run as run_files
        from spojoin.local.supervise import ending_on_signals

        query = _chosen_query(options)
        say_notes(query)
        files = _files(options, query)
        limit = parse_reject_limit(options.max_rejects)
        with ending_on_signals(), run_progress(query.name, is_quiet=options.quiet) as progress:
            report = run_files(query, files, workers=options.workers, threads=options.threads, progress=progress)
        if not options.quiet:
            from spojoin.cli.run_report import show_run

            show_run(report, options.output)
        end_with_refused(report, query, RUN, limit, (options.output, options.rejects))


def _files(options: RunOptions, query: Query) -> RunFiles:
    from spojoin.embedded.formats import format_by_name
    from spojoin.embedded.run_files import RunFiles, table_files

    return RunFiles(
        {**table_files(query, options.query.parent), **stream_files(options.inputs)},
        options.output,
        options.rejects,
        options.report,
        query_file=options.query,
        format=format_by_name(options.format),
    )


def _chosen_query(options: RunOptions) -> Query:
    from spojoin.embedded.input_options import csv_by_texts, with_csv
    from spojoin.evaluation.choices import chosen_layout, chosen_method
    from spojoin.query.load import load_query

    query = with_csv(load_query(options.query), csv_by_texts(options.csv or ()))
    query = chosen_method(query, options.method, options.method_option or ())
    return chosen_layout(query, options.layout, options.workers, options.layout_option or ())
