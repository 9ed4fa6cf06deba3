"""`spojoin service`: one service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from spojoin.cli.commands.common import Debug
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """Which service, and its settings."""

    role: Annotated[
        str,
        typer.Argument(
            help="router, predictor, mutable, permutation, pojoin, logical-and, sink or controller; several that share "
            "a process, such as router+sink; or together, which is all but predictor and controller."
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
        from spojoin.runtime.service import run as serve
        from spojoin.runtime.settings import load_settings

        raise typer.Exit(serve(parse_group(options.role), load_settings(options.settings)))
