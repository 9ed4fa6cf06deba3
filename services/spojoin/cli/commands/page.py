"""`spojoin page`: a query's web page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from spojoin.cli.commands.common import Bootstrap, Debug, QueryFile, Redis
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options


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
