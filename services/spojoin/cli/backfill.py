"""A query over a history: reads it by Spark, says how it will be answered, writes the results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from spojoin.cli.backfill_paths import check_places, paths_of
from spojoin.cli.spark_progress import spark_progress
from spojoin.errors import ConfigurationError
from spojoin.local.supervise import ending_on_signals
from spojoin.model import Query, Stream
from spojoin.query.load import load_query
from spojoin.spark.asked import FrameQuery, of_query
from spojoin.spark.explained import explained
from spojoin.spark.files import check_mode, check_output, read, write
from spojoin.spark.history import HistoryJoin
from spojoin.spark.ordering import order_of
from spojoin.spark.planned import planned
from spojoin.spark.sentences import sentences
from spojoin.spark.session import session
from spojoin.spark.settings import HistorySettings, bytes_of
from spojoin.spark.until import UntilValue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spojoin.cli.backfill_options import BackfillOptions

BEGAN = "began"
_NUMBER = re.compile(r"[+-]?\d+")
_FORMATS = {".csv": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json", ".parquet": "parquet"}


def answer(options: BackfillOptions) -> None:
    """Answer the history, or say how. Raises ConfigurationError and BadData for what the user can correct."""
    query = load_query(options.query)
    paths = paths_of(query, options)
    settings = pairs("--conf", options.conf)
    output = _output(options)
    check_places(paths.values(), output, options)
    with ending_on_signals(), sentences(), session(options.master, settings) as spark:
        if output is not None:
            check_output(spark, output, options.mode)
        history = _history(spark, query, paths, options)
        if output is None:
            typer.echo(explained(history))
        else:
            _write(spark, history, output, options)


def _output(options: BackfillOptions) -> str | None:
    if options.explain:
        return None
    check_mode(options.mode)
    if options.output is None:
        raise ConfigurationError("--output is missing: say where results go, or ask for the plan alone, by --explain")
    return options.output


def _history(spark: SparkSession, query: Query, paths: Mapping[str, str], options: BackfillOptions) -> HistoryJoin:
    asked = of_query(query, tuple(_frame(spark, stream, paths[stream.name], options) for stream in query.inputs))
    order_by = None if options.order_by is None else [name.strip() for name in options.order_by.split(",")]
    until = _until(asked, order_by, options)
    return planned(spark, asked, order_by, until, HistorySettings(options.shares, bytes_of(options.memory)))


def _frame(spark: SparkSession, stream: Stream, path: str, options: BackfillOptions) -> DataFrame:
    if stream.table is not None:  # small, and a file as `spojoin run` reads it
        return read(spark, path, _FORMATS.get(Path(path).suffix, options.format), {})
    return read(spark, path, options.format, pairs("--option", options.option))


def _until(asked: FrameQuery, order_by: list[str] | None, options: BackfillOptions) -> UntilValue:
    text = options.until
    if text is None:
        return None
    if text != BEGAN:
        return int(text) if _NUMBER.fullmatch(text) else text
    from spojoin.cli.began import began_of  # noqa: PLC0415  (needs the packages of Kafka)

    first = order_of(asked, order_by)[0].by[0]
    found = began_of(asked.query, options.query, options.bootstrap, first)
    if not options.quiet:
        typer.echo(f"generation {found.generation} answers from {first} {found.until} on", err=True)
    return found.until


def _write(spark: SparkSession, history: HistoryJoin, output: str, options: BackfillOptions) -> None:
    with spark_progress(spark, history.asked.query.name, is_quiet=options.quiet):
        rows = write(history, output, options.output_format, options.mode)
    if not options.quiet:
        typer.echo(f"{rows:,} rows of results in {output}")
    if refused := ", ".join(f"{reason} {count:,}" for reason, count in history.gathered.refused.items()):
        typer.echo(f"spojoin: refused rows, which answer nothing: {refused}", err=True)


def pairs(option: str, given: Iterable[str] | None) -> dict[str, str]:
    """Names and values of texts NAME=VALUE; option: for errors. Raises ConfigurationError."""
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise ConfigurationError(f"{option} {text}: expected NAME=VALUE")
        found[name] = value
    return found
