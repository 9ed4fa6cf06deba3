"""`spojoin replay-dead-letters`: refused rows sent again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer

from spojoin.cli.commands.common import Bootstrap, Debug, QueryFile
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Whose dead letters, and which."""

    query: QueryFile
    bootstrap: Bootstrap = "127.0.0.1:9092"
    reason: Annotated[
        list[str] | None, typer.Option(help="Only rows refused for this reason, such as late; repeatable.")
    ] = None
    since: Annotated[
        datetime | None, typer.Option(help="Only rows refused since then, in UTC.", show_default=False)
    ] = None
    again: Annotated[bool, typer.Option("--again", help="Also rows that were sent again and refused again.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Send nothing; say what would be sent.")] = False
    debug: Debug = False


@with_options
def replay_dead_letters(options: ReplayOptions) -> None:
    """Send refused rows into their input topics again, each once, and say what became of them.

    What was sent is remembered in the topics of the dead letters, so a second call sends only what was refused since.

    Examples:

        spojoin replay-dead-letters query.yaml --dry-run

        spojoin replay-dead-letters query.yaml --reason late --since 2026-11-27T08:00:00
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.cli.replay import replayed

        since_ms = 0 if options.since is None else int(options.since.replace(tzinfo=UTC).timestamp() * 1000)
        chosen = frozenset(options.reason or ()), since_ms, options.again
        for line in replayed(options.query, options.bootstrap, chosen, is_dry=options.dry_run):
            typer.echo(line)
