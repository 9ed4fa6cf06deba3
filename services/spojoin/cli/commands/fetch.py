"""`spojoin fetch`: downloads that other commands need, ahead of time."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from spojoin.cli.commands.common import Debug
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """How failures are shown."""

    debug: Debug = False


@with_options
def fetch(options: FetchOptions) -> None:
    """Fetch Kafka's jars from Maven Central, once.

    Example:

        spojoin fetch
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.local.jars import kafka_jars

        typer.echo(f"Kafka: {kafka_jars(progress=typer.echo)}")
