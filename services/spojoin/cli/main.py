"""The command `spojoin`, put together from its commands."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from spojoin.blocked_imports import keep_out
from spojoin.cli.commands.backfill import backfill
from spojoin.cli.commands.explain import explain, layouts, methods, validate
from spojoin.cli.commands.first_steps import fetch, sample, warm_up
from spojoin.cli.commands.run import run
from spojoin.cli.commands.schema import schema
from spojoin.cli.commands.services import kafka, page, service, status, up
from spojoin.cli.commands.sql import sql
from spojoin.cli.commands.topics import replay_dead_letters, restore, results, send, topics
from spojoin.cli.errors import COMMAND
from spojoin.cli.options import Command, version_option
from spojoin.version import __version__

#: The status that a shell reports for a process ended by SIGTERM.
STATUS_TERMINATED = 143

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
    fetch,
    warm_up,
)
#: Commands of the load generator, which users may look for here.
LOADGEN_COMMANDS = (
    *("demo", "produce", "feed", "workloads", "check", "ramp", "chaos"),
    *("silence", "soak", "simulate", "promises", "engines", "papers"),
)


class SpojoinCommands(TyperGroup):
    """The commands of `spojoin`; for a command of the load generator, the error says how to get it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401  (click's own types)
        """The command that the arguments name, and its arguments."""
        if args[0] in LOADGEN_COMMANDS:
            ctx.fail(
                f"'{args[0]}' is a command of the load generator: pip install spojoin-loadgen, then: loadgen {args[0]}"
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="spojoin",
    cls=SpojoinCommands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Exact stream inequality joins: `<`, `<=`, `>`, `>=`, `=`, `!=` and bands on sliding windows.

One statement over files: `spojoin sql`. A query in a YAML file: over files in this process with `spojoin run`, or as
services over Kafka with `spojoin up`. `spojoin sample flights.csv` writes real flights to try it on.""",
)


def prepare(environment: Mapping[str, str]) -> None:
    """Obey SIGTERM from the start, and use the kernels that were compiled when the image was built."""
    if os.getpid() == 1:  # a signal doesn't end process 1 unless it handles the signal
        signal.signal(signal.SIGTERM, _end)
    kernels, cache = environment.get("SPOJOIN_KERNELS"), environment.get("NUMBA_CACHE_DIR")
    if kernels and cache:
        link_all(Path(kernels), Path(cache))


def link_all(source: Path, target: Path) -> None:
    """Make `target` a copy of the folder `source` in which every file is a link.

    Numba uses only a cache that it can write to. Locks aren't linked: each container has its own.
    """
    for folder, _, names in os.walk(source):
        copied = target / Path(folder).relative_to(source)
        copied.mkdir(parents=True, exist_ok=True)
        for name in (each for each in names if not each.endswith(".lock")):
            # Another process of the container, such as a command in a pod that starts, may make the same links.
            with suppress(FileExistsError):
                (copied / name).symlink_to(Path(folder) / name)


def _end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(STATUS_TERMINATED)


@app.callback()
def first(context: typer.Context, version: Annotated[bool, version_option("spojoin", __version__)] = False) -> None:
    """Runs before every command."""
    import os  # noqa: PLC0415  (as the commands: help comes at once)

    COMMAND.set(context.invoked_subcommand)
    prepare(os.environ)


for command in COMMANDS:
    app.command(cls=Command)(command)


def main() -> None:
    """Run the command as a process."""
    keep_out("pandas")  # pyarrow imports it at its first array where it is installed: 0.2 s, of use to Spark alone
    app()


if __name__ == "__main__":
    main()
