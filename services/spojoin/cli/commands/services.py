"""`spojoin up`, `kafka`, `service`, `status` and `page`: a served query's processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from spojoin.cli.errors import one_sentence
from spojoin.cli.options import Bootstrap, Debug, QueryFile, Redis, UpOptions, with_options
from spojoin.protocol.topology import LONE_ROLES, Role
from spojoin.suggest import listed


@with_options
def up(options: UpOptions) -> None:
    """Serve a query on this machine until Ctrl-C: Kafka, Redis and all services, in one process or several.

    Then push rows as JSON, CSV lines or Arrow batches to the printed topics, from any program or with
    `spojoin send`, and read the results with `spojoin results`.

    Examples:

        spojoin up query.yaml

        spojoin up query.yaml --workers 4 --bootstrap kafka:9092 --redis redis://redis:6379/0

        spojoin up changed.yaml --replace --bootstrap kafka:9092 --redis redis://redis:6379/0
    """
    with one_sentence(is_debug=options.debug):
        from rich.console import Console

        from spojoin.cli.up import serve

        serve(options, Console())


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """Ports, and where the data stays."""

    port: Annotated[int | None, typer.Option(help="Kafka's port; by default any free one.")] = None
    redis_port: Annotated[int | None, typer.Option(help="Redis' port; by default any free one.")] = None
    folder: Annotated[Path | None, typer.Option(help="Keep Kafka's data in this folder.")] = None
    debug: Debug = False


@with_options
def kafka(options: KafkaOptions) -> None:
    """Run a Kafka broker of one node and a Redis on this machine until Ctrl-C.

    Example:

        spojoin kafka --port 9092 --redis-port 6379
    """
    with one_sentence(is_debug=options.debug):
        from rich.console import Console

        from spojoin.cli.up import run_cluster

        run_cluster(options.port, options.redis_port, options.folder, Console())


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """Which service, and its settings."""

    role: Annotated[
        str,
        typer.Argument(
            help=f"{listed(Role)}; several that share a process, such as router+sink; or together: all but "
            f"{' and '.join(LONE_ROLES)}."
        ),
    ]
    settings: Annotated[Path | None, typer.Option(help="A .yaml, .toml or .env file of settings.")] = None
    debug: Debug = False


@with_options
def service(options: ServiceOptions) -> None:
    """Run one service until SIGTERM, configured by SPOJOIN_ variables or a settings file.

    Examples:

        SPOJOIN_QUERY_FILE=query.yaml SPOJOIN_BOOTSTRAP_SERVERS=kafka:9092 spojoin service router

        SPOJOIN_WORKER=1 spojoin service pojoin --settings settings.yaml
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.protocol.packing import parse_group
        from spojoin.runtime.__main__ import start
        from spojoin.runtime.settings import load_settings

        raise typer.Exit(start(parse_group(options.role), load_settings(options.settings)))


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
        typer.Option("--check", help="Report in one sentence whether the query is well; exit status 1 if it is not."),
    ] = False
    wait: Annotated[float, typer.Option(min=0, help="With --check: seconds to wait until it is well.")] = 0.0
    debug: Debug = False


@with_options
def status(options: StatusOptions) -> None:
    """Show all services of all queries: state, lag, tuples, matches and latency.

    With a query, also show its flow with rates, its window, its latest results and its dead letters.

    Examples:

        spojoin status --redis redis://127.0.0.1:6379/0

        spojoin status query.yaml --check --wait 60 --redis redis://127.0.0.1:6379/0

        spojoin status query.yaml --watch --redis redis://127.0.0.1:6379/0 --bootstrap 127.0.0.1:9092
    """
    with one_sentence(is_debug=options.debug):
        from rich.console import Console

        from spojoin.cli.status import is_well, show_query, show_status
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """Which query to show, and where the page is served."""

    query: QueryFile
    redis: Redis = "redis://127.0.0.1:6379/0"
    bootstrap: Bootstrap = "127.0.0.1:9092"
    host: Annotated[str | None, typer.Option(help="The address to serve it on; by default this machine only.")] = None
    port: Annotated[int | None, typer.Option(help="Its port; default 8080, 0 for any free one.")] = None
    workers: Annotated[int | None, typer.Option(min=1, help="The expected number of PO-Join workers.")] = None
    debug: Debug = False


@with_options
def page(options: PageOptions) -> None:
    """Serve a page about a query until Ctrl-C: its flow with rates and lag, window, latest results, dead letters.

    Example:

        spojoin page query.yaml --redis redis://127.0.0.1:6379/0 --bootstrap 127.0.0.1:9092
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.page.service import run as serve
        from spojoin.page.settings import load_page_settings

        settings = load_page_settings(
            host=options.host,
            port=options.port,
            query_file=options.query,
            redis_url=options.redis,
            bootstrap_servers=options.bootstrap,
            workers=options.workers,
        )
        raise typer.Exit(serve(settings, lambda address: typer.echo(f"the page is at {address}")))
