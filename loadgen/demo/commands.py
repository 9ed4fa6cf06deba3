"""`loadgen demo`, and `loadgen fetch`, which prepares it."""

# A command's docstring is what --help shows, blank lines and all. Imports stand inside, so that help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from loadgen.errors import one_sentence
from loadgen.load import options
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Those of `loadgen demo`."""

    report: Annotated[Path, typer.Option(help="The folder for report.json, report.html and logs.")] = Path("report")
    only: Annotated[list[str] | None, typer.Option(help="Only this query of loadgen/queries; repeatable.")] = None
    debug: options.Debug = False


@with_options
def demo(asked: DemoOptions) -> None:
    """Watch real flights stream from PySpark through Kafka and all services, and see the result proved complete.

    Needs Java 17 and the extras: pip install 'spojoin[local,spark]'. The first time it fetches Kafka's jars.

    Example:

        loadgen demo --report report
    """
    with one_sentence(is_debug=asked.debug):
        from rich.console import Console

        from loadgen.demo.main import demo as play

        raise typer.Exit(play(asked.report, Console(), asked.only or ()))


def fetch(debug: options.Debug = False) -> None:
    """Fetch Spark's Kafka connector from Maven Central, once; `spojoin fetch` fetches Kafka's jars.

    Example:

        loadgen fetch
    """
    with one_sentence(is_debug=debug):
        from loadgen.load.spark import start

        start(progress=typer.echo).stop()
        typer.echo("Spark: the Kafka connector is there")
