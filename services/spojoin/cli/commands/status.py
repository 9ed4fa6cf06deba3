"""`spojoin status`: what services report, at the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from spojoin.cli.commands.common import Bootstrap, Debug, Redis
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOptions:
    """What to show, and how often."""

    query: Annotated[Path | None, typer.Argument(help="A query's YAML file, to see its details.")] = None
    redis: Redis = "redis://127.0.0.1:6379/0"
    bootstrap: Bootstrap = "127.0.0.1:9092"
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C; the default at a terminal.")] = (
        False
    )
    once: Annotated[bool, typer.Option("--once", help="Print once; the default without a terminal.")] = False
    check: Annotated[
        bool,
        typer.Option("--check", help="Say in one sentence whether the query is well; exit status 1 if it isn't."),
    ] = False
    wait: Annotated[float, typer.Option(min=0, help="With --check: seconds within which it may become well.")] = 0.0
    debug: Debug = False


@with_options
def status(options: StatusOptions) -> None:
    """Show all services of all queries: state, lag, tuples, matches and latency.

    With a query also its flow with rates, how full its window is, its latest results and its dead letters.

    Examples:

        spojoin status --redis redis://127.0.0.1:6379/0

        spojoin status query.yaml --check --wait 60 --redis redis://127.0.0.1:6379/0

        spojoin status query.yaml --watch --redis redis://127.0.0.1:6379/0 --bootstrap 127.0.0.1:9092
    """
    with one_sentence(is_debug=options.debug):
        from rich.console import Console

        from spojoin.cli.live import show_query, show_status
        from spojoin.cli.well import is_well
        from spojoin.errors import ConfigurationError
        from spojoin.local.reachable import check_redis_address
        from spojoin.runtime.settings import load_settings

        if options.watch and options.once:
            raise ConfigurationError("--watch and --once exclude each other: give one of them")
        check_redis_address(options.redis)
        if options.check:
            if options.query is None:
                raise ConfigurationError("--check is about one query: name its file")
            raise typer.Exit(not is_well(options.query, options.redis, options.wait))
        console = Console()
        is_once = options.once or not (options.watch or console.is_terminal)
        if options.query is None:
            # A table of all queries reads no query; the settings hold the store's user and password.
            settings = load_settings(query_file=Path(), redis_url=options.redis)
            show_status(settings.store_url() or options.redis, console, is_once=is_once)
        else:
            show_query(options.query, options.redis, options.bootstrap, console, is_once=is_once)
