"""`spojoin sql`: a statement over files, without a query file."""

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
    Quiet,
    Rejects,
    ResultFormat,
    Schema,
    say_notes,
    with_options,
)

if TYPE_CHECKING:
    from spojoin.embedded.divided_statement import DividedStatement


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlOptions:
    """The statement, and where its rows go."""

    statement: Annotated[
        str | None,
        typer.Argument(
            metavar="[STATEMENT]",
            help="A SELECT with a join; FROM and JOIN name files in quotes, '-' standard input.",
            show_default=False,
        ),
    ] = None
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="The file of the statement, in its place; - is standard input.")
    ] = None
    output: Output = Path("-")
    format: ResultFormat = None
    time: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[FILE=]COLUMN",
            help="The column with the event time, if it orders the rows and a file has several timestamps.",
        ),
    ] = None
    lateness: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How far event times may run backwards, such as '5 s'.")
    ] = None
    schema: Schema = None
    csv: Csv = None
    limit: Annotated[int | None, typer.Option(min=1, help="The most partners that are listed for one row.")] = None
    rejects: Rejects = None
    max_rejects: MaxRejects = "50%"
    report: Annotated[Path | None, typer.Option(help="The file of the run's figures, as JSON.")] = None
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how the statement is evaluated and what it costs; read no rows.")
    ] = False
    quiet: Quiet = False
    debug: Debug = False


@with_options
def sql(options: SqlOptions) -> None:
    """Join files by one SQL statement, without a query file; the join may be a part of more SQL.

    FROM and JOIN name files in quotes: CSV, JSON lines, Parquet or Arrow, also packed; 'trips-*.csv.gz' is one input,
    '-' standard input. A file joined with itself is read in its order; two are merged by timestamp, or --time. JOIN
    TABLE('tiers.csv') joins with all rows of a file.

    A pair of rows is a result if the condition holds and the earlier row lies in the later one's window. Results are a
    table on a terminal and JSON lines in a pipe; -o names a file. The exit status is 0, 1 if too many rows were
    refused or a column's type was guessed wrongly, 2 for a mistake.

    Examples, which can be pasted one after the other:

        spojoin sample flights.csv

        spojoin sql "SELECT l.flight, r.flight AS other, l.distance, r.distance
        FROM 'flights.csv' AS l JOIN 'flights.csv' AS r
        ON l.distance > r.distance AND l.air_time < r.air_time
        WHERE l.origin = 'JFK' WINDOW AS (SLIDE INTERVAL '1' ON '1K')"

        spojoin sql --format csv "SELECT l.tailnum, l.dest, r.at AS back
        FROM 'flights.csv' AS l JOIN 'flights.csv' AS r
        ON l.tailnum = r.tailnum AND l.dest <> r.dest
        AND r.at BETWEEN l.at AND l.at + INTERVAL '8 hours'" | head

        cat flights.csv | spojoin sql -o worse.parquet "SELECT l.dest, l.at
        FROM '-' AS l JOIN '-' AS r ON l.arr_delay < r.arr_delay
        WHERE l.arr_delay > 60 WINDOW AS (SLIDE INTERVAL '1' ON '1K')"

        spojoin sql --explain "SELECT l.flight, r.flight AS other
        FROM 'flights*.csv' AS l JOIN 'flights*.csv' AS r
        ON ABS(l.air_time - r.air_time) < 2 WINDOW AS (SLIDE INTERVAL '1' ON '1K')"
    """
    with one_sentence(is_debug=options.debug):
        _run_or_explain(options)


def _run_or_explain(options: SqlOptions) -> None:
    from spojoin.embedded.divided_statement import divide_statement
    from spojoin.embedded.input_options import csv_by_texts, schema_by_texts
    from spojoin.embedded.statements import StatementOptions

    choices = StatementOptions(
        _times(options.time or ()),
        options.lateness,
        options.limit,
        schema_by_texts(options.schema or ()),
        csv_by_texts(options.csv or ()),
        ends=True,
    )
    found = divide_statement(_statement(options), {}, choices)
    for join in found.joins.values():
        say_notes(join.query)
    if options.explain:
        from rich.console import Console

        from spojoin.embedded.explained import show_plan

        show_plan(found, Console())
    else:
        _run(found, options)


def _statement(options: SqlOptions) -> str:
    """The statement given, or that of a file."""
    import sys

    from spojoin.embedded.file_paths import DASH
    from spojoin.errors import ConfigurationError

    if (options.statement is None) == (options.file is None):
        raise ConfigurationError("expected a statement in quotes, or --file FILE with one")
    if options.file is None:
        return options.statement or ""
    try:
        return sys.stdin.read() if options.file == DASH else options.file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--file {options.file} cannot be read: {error}") from error


def _times(texts: list[str] | tuple[()]) -> dict[str, str]:
    """The event-time column of each file; of those not named, under the empty text."""
    pairs = [text.rpartition("=") for text in texts]
    return {name: column for name, _, column in pairs}


def _run(found: DividedStatement, options: SqlOptions) -> None:
    from spojoin.cli.run_report import end_with_refused, run_progress, show_run
    from spojoin.embedded.file_paths import DASH
    from spojoin.embedded.formats import format_by_name
    from spojoin.embedded.refusal_report import SQL, parse_reject_limit
    from spojoin.embedded.run import run, write_rows
    from spojoin.embedded.run_files import RunFiles
    from spojoin.embedded.statements import NAME
    from spojoin.local.supervise import ending_on_signals

    join, shape, limit = found.join, format_by_name(options.format), parse_reject_limit(options.max_rejects)
    sources, beside = join.sources if join else {}, tuple(found.files)
    outputs = options.output, options.rejects, options.report
    files = RunFiles(sources, *outputs, format=shape, beside=beside, is_statement=True)
    is_shown = options.output != DASH and join is not None
    with ending_on_signals(), run_progress(NAME, is_quiet=options.quiet, has_bar=is_shown) as progress:
        report = (
            run(join.query, files, progress=progress, surround=found.rows) if join else write_rows(found.rows(), files)
        )
    if is_shown and not options.quiet:
        show_run(report, options.output)
    end_with_refused(report, join.query if join else None, SQL, limit, (options.output, options.rejects))
