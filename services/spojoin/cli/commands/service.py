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
        str, typer.Argument(help="router, predictor, mutable, permutation, pojoin, logical-and, sink or controller.")
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
        from spojoin.errors import ConfigurationError
        from spojoin.protocol.topology import Role
        from spojoin.runtime.service import run as serve
        from spojoin.runtime.settings import load_settings

        if options.role not in [each.value for each in Role]:
            raise ConfigurationError(f"there is no service {options.role!r}; expected one of {', '.join(Role)}")
        raise typer.Exit(serve(Role(options.role), load_settings(options.settings)))
