"""`loadgen check`."""

# --help prints a command's docstring with its blank lines. Commands import modules when they run, so help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import orjson
import typer

from loadgen.load import options
from loadgen.load.connection import pairs
from loadgen.load.spark_options import Bootstrap, Property, kafka_of
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The options of `loadgen check`."""

    query: Annotated[Path, typer.Argument(help="The query's YAML file.", exists=True, dir_okay=False)]
    bootstrap: Bootstrap
    input_topic: Annotated[
        list[str] | None, typer.Option(help="stream=topic, where a stream isn't in `in.<stream>`; repeatable.")
    ] = None
    results: Annotated[str | None, typer.Option(help="The results topic; default `<query>.results`.")] = None
    table_file: Annotated[
        list[Path] | None,
        typer.Option(help="A file that the query's table was before the one that the query names; repeatable."),
    ] = None
    sample: Annotated[
        int | None, typer.Option(min=1, help="Recompute only this number of probes; with --history beside it.")
    ] = None
    history: Annotated[
        bool | None,
        typer.Option(
            "--history/--loop",
            help="Compare every result row with a history on Spark, and recompute a sample of probes; or recompute "
            "every probe by a nested loop. The default is the loop as long as that takes minutes.",
        ),
    ] = None
    seed: options.Seed = 0
    redis: Annotated[
        str | None,
        typer.Option(help="The services' Redis: their metrics report the verdict.", envvar="SPOJOIN_REDIS_URL"),
    ] = None
    kafka_property: Property = None


@with_options
def check(asked: CheckOptions) -> None:
    """Recompute a join from its input topics and compare the results. The exit status is 0 only if they are exact.

    Run it when the services are at rest. Prints a JSON object: completeness, false positives, duplicates, rejected
    rows by reason, the first difference in words, and the ways of the check. The log of a query with a table must still
    show each answer's table version.

    Example:

        loadgen check loadgen/queries/q3.yaml --bootstrap 127.0.0.1:9092
    """
    from loadgen.check import checker
    from loadgen.check.history import CheckPlan, CheckWay
    from loadgen.check.judging import ProbeSample
    from loadgen.check.reading import CheckedTopics
    from loadgen.check.verdict import publish
    from loadgen.load import spark
    from spojoin.query.load import load_query

    kafka = kafka_of(asked.bootstrap, asked.kafka_property)
    topics = CheckedTopics(
        kafka,
        pairs(asked.input_topic or (), "input-topic"),
        asked.results,
        folder=asked.query.parent,
        table_files=asked.table_file or (),
    )
    session = spark.start(progress=lambda line: typer.echo(line, err=True))
    way = None if asked.history is None else (CheckWay.HISTORY if asked.history else CheckWay.LOOP)
    plan = CheckPlan(ProbeSample(asked.sample, asked.seed), way)
    verdict = checker.check(session, load_query(asked.query), topics, plan)
    typer.echo(orjson.dumps(verdict.as_json(), option=orjson.OPT_INDENT_2).decode())
    if asked.redis is not None:
        publish(verdict, asked.redis)
    raise typer.Exit(0 if verdict.is_exact else 1)
