"""The command `spojoin`, put together from its commands."""

from __future__ import annotations

from typing import Annotated

import typer

from spojoin.cli.commands.backfill import backfill
from spojoin.cli.commands.explain import explain
from spojoin.cli.commands.fetch import fetch
from spojoin.cli.commands.kafka import kafka
from spojoin.cli.commands.page import page
from spojoin.cli.commands.published import layouts, methods
from spojoin.cli.commands.replay import replay_dead_letters
from spojoin.cli.commands.restore import restore
from spojoin.cli.commands.run import run
from spojoin.cli.commands.sample import sample
from spojoin.cli.commands.schema import schema
from spojoin.cli.commands.service import service
from spojoin.cli.commands.simulate import simulate
from spojoin.cli.commands.sql import sql
from spojoin.cli.commands.status import status
from spojoin.cli.commands.topics import results, send, topics
from spojoin.cli.commands.up import up
from spojoin.cli.commands.validate import validate
from spojoin.cli.commands.warm_up import warm_up
from spojoin.cli.extras import COMMAND
from spojoin.cli.options import Command
from spojoin.cli.version import version_option
from spojoin.keep_out import keep_out
from spojoin.version import __version__

#: In the order of --help.
COMMANDS = (
    sql,
    run,
    sample,
    schema,
    methods,
    layouts,
    validate,
    explain,
    backfill,
    up,
    topics,
    restore,
    send,
    results,
    replay_dead_letters,
    kafka,
    service,
    status,
    page,
    simulate,
    fetch,
    warm_up,
)

app = typer.Typer(
    name="spojoin",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Exact stream inequality joins: `<`, `<=`, `>`, `>=`, `=`, `!=` and bands on sliding windows.

One statement over files: `spojoin sql`. A query in a YAML file: over files in this process with `spojoin run`, or as
services over Kafka with `spojoin up`. `spojoin sample flights.csv` writes real flights to try it on.""",
)


@app.callback()
def first(context: typer.Context, version: Annotated[bool, version_option("spojoin", __version__)] = False) -> None:
    """Runs before every command."""
    import os  # noqa: PLC0415  (as the commands: help comes at once)

    from spojoin.cli.container import prepare  # noqa: PLC0415

    COMMAND.set(context.invoked_subcommand)
    prepare(os.environ)


for command in COMMANDS:
    app.command(cls=Command)(command)


def main() -> None:
    """The command as a process of its own."""
    keep_out("pandas")  # pyarrow imports it at its first array where it is installed: 0.2 s, of use to Spark alone
    app()


if __name__ == "__main__":
    main()
