"""`spojoin demo`: real flights through every service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from spojoin.cli.commands.common import Debug
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Which queries to play, and where the report goes."""

    report: Annotated[Path, typer.Option(help="The folder for report.json, report.html and logs.")] = Path("report")
    only: Annotated[list[str] | None, typer.Option(help="Only this query of loadgen/queries; may be repeated.")] = None
    debug: Debug = False


@with_options
def demo(options: DemoOptions) -> None:
    """Watch real flights stream from PySpark through Kafka and all services, and see the result proved complete.

    Needs Java 17 and the extras: pip install 'spojoin[local,spark]'. The first time it fetches Kafka's jars.

    Example:

        spojoin demo --report report
    """
    with one_sentence(is_debug=options.debug):
        from rich.console import Console

        from loadgen.demo.main import demo as play

        raise typer.Exit(play(options.report, Console(), options.only or ()))
