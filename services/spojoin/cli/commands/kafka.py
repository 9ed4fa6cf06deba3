"""`spojoin kafka`: a broker and a Redis on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from spojoin.cli.commands.common import Debug
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options


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
