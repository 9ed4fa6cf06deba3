"""Answers a query over a history: reads it with Spark, prints the plan, and writes the results."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from spojoin.embedded.run_files import table_files
from spojoin.errors import ConfigurationError
from spojoin.local.supervise import ending_on_signals
from spojoin.model import Query, Stream
from spojoin.query.load import load_query
from spojoin.spark.api import explain_history, plan_history
from spojoin.spark.files import check_mode, check_output, exists_already, read, write
from spojoin.spark.history import HistoryJoin
from spojoin.spark.history_query import FrameQuery, frame_query
from spojoin.spark.ordering import input_orders
from spojoin.spark.session import LOST, HistorySettings, bytes_of, is_local, sentences, session
from spojoin.spark.until import UntilValue
from spojoin.suggest import listed, unknown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spojoin.cli.options import BackfillOptions

LOOK_S = 0.5

#: A path of another file system, or a pattern that Spark resolves.
_NOT_PLAIN = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|[*?\[{]")
BEGAN = "began"
_NUMBER = re.compile(r"[+-]?\d+")
_FORMATS = {".csv": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json", ".parquet": "parquet"}


def answer(options: BackfillOptions) -> None:
    """Answer the history, or print the plan. Raises ConfigurationError and BadData for what the user can correct."""
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
            typer.echo(explain_history(history))
        else:
            _write(spark, history, output, options)


def _output(options: BackfillOptions) -> str | None:
    if options.explain:
        return None
    check_mode(options.mode)
    if options.output is None:
        raise ConfigurationError("--output is missing: name the folder of results, or print only the plan by --explain")
    return options.output


def _history(spark: SparkSession, query: Query, paths: Mapping[str, str], options: BackfillOptions) -> HistoryJoin:
    asked = frame_query(query, tuple(_frame(spark, stream, paths[stream.name], options) for stream in query.inputs))
    order_by = None if options.order_by is None else [name.strip() for name in options.order_by.split(",")]
    until = _until(asked, order_by, options)
    return plan_history(spark, asked, order_by, until, HistorySettings(options.shares, bytes_of(options.memory)))


def _frame(spark: SparkSession, stream: Stream, path: str, options: BackfillOptions) -> DataFrame:
    if stream.table is not None:  # a table is small, and read from a file as by `spojoin run`
        return read(spark, path, _FORMATS.get(Path(path).suffix, options.format), {})
    return read(spark, path, options.format, pairs("--option", options.option))


def _until(asked: FrameQuery, order_by: list[str] | None, options: BackfillOptions) -> UntilValue:
    text = options.until
    if text is None:
        return None
    if text != BEGAN:
        return int(text) if _NUMBER.fullmatch(text) else text
    from spojoin.cli.generations import generation_beginning  # noqa: PLC0415  (needs the packages of Kafka)

    first = input_orders(asked, order_by)[0].by[0]
    found = generation_beginning(asked.query, options.query, options.bootstrap, first)
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


def paths_of(query: Query, options: BackfillOptions) -> dict[str, str]:
    """The path of each input, by its name. Raises ConfigurationError if one is missing, unknown or named twice."""
    names = [stream.name for stream in query.inputs]
    flowing = [stream.name for stream in query.inputs if stream.table is None]
    found: dict[str, str] = {}
    for text in options.sources:
        name, path = _input_and_path(text, names, flowing)
        if name in found:
            raise ConfigurationError(f"--from {text}: {name!r} has a path already, {found[name]}")
        found[name] = path
    found = {**{name: str(path) for name, path in table_files(query, options.query.parent).items()}, **found}
    missing = [name for name in names if name not in found]
    if missing:
        raise ConfigurationError(f"no history of {listed(missing)}: add --from {missing[0]}=PATH")
    return found


def check_places(sources: Iterable[str], output: str | None, options: BackfillOptions) -> None:
    """Raise ConfigurationError for errors that this machine's file system shows, without waiting for Spark."""
    if not is_local(options.master):
        return
    for path in sources:
        if not _NOT_PLAIN.search(path) and not os.path.exists(path):
            raise ConfigurationError(f"{path}: no such file or folder")
    if output is not None and options.mode == "error" and not _NOT_PLAIN.search(output) and os.path.exists(output):
        raise exists_already(output)


def _input_and_path(text: str, names: list[str], flowing: list[str]) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if equals and name in names:
        return name, path
    if len(flowing) == 1 and (not equals or "/" in name):
        return flowing[0], text
    if equals:
        raise ConfigurationError(f"--from {text}: {unknown('stream', name, names)}")
    raise ConfigurationError(f"--from {text}: the query reads {listed(flowing)}; name its stream, NAME=PATH")


def pairs(option: str, given: Iterable[str] | None) -> dict[str, str]:
    """Names and values of texts NAME=VALUE; option: for errors. Raises ConfigurationError."""
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise ConfigurationError(f"{option} {text}: expected NAME=VALUE")
        found[name] = value
    return found


@contextmanager
def spark_progress(spark: SparkSession, name: str, *, is_quiet: bool) -> Iterator[None]:
    """Shows, while the block runs, how many tasks of Spark's stages are done."""
    if is_quiet:
        yield
        return
    from rich.console import Console  # noqa: PLC0415  (as the commands: what isn't shown isn't imported)

    with Console(stderr=True).status(name) as shown:
        done = threading.Event()

        def look() -> None:
            with suppress(*LOST):  # the work itself fails too, and reports it
                while not done.wait(LOOK_S):
                    shown.update(f"{name}: {_tasks(spark)}")

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        try:
            yield
        finally:
            done.set()
            looking.join()


def _tasks(spark: SparkSession) -> str:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    found = [stage for stage in stages if stage is not None]
    done, wanted = sum(stage.numCompletedTasks for stage in found), sum(stage.numTasks for stage in found)
    return f"{done:,} of {wanted:,} tasks" if found else "planning"
