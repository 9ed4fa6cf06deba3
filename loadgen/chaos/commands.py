"""`loadgen chaos`."""

# A command's docstring is what --help shows, blank lines and all. Imports stand inside, so that help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from loadgen.errors import one_sentence
from loadgen.load import options
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    """Those of `loadgen chaos`."""

    file: options.File = None
    workload: options.Workload = None
    seed: Annotated[
        int | None, typer.Option(help="Chooses rows and faults: the same seed gives the same campaign.")
    ] = None
    rate: options.Rate = None
    duration: Annotated[str | None, typer.Option(help="90s, 5m or 1.5h.")] = None
    kinds: Annotated[
        str | None, typer.Option(help="Which faults, with commas; `none` for an undisturbed run.", metavar="KIND,...")
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the schedule.")] = False
    schema: options.Schema = False
    debug: options.Debug = False


@with_options
def chaos(asked: ChaosOptions) -> None:
    """Break things by seed and schedule while rows flow, and compare every result with the join's definition.

    Kinds: *delete* a pod (locally SIGTERM), *kill* (SIGKILL) and *pause* (SIGSTOP for seconds) a service, restart the
    *broker*, flush *redis*. Each service is struck once a round. In the end all probes are recomputed by a nested loop
    over the same rows, and a SHA-256 of the output stands for all of it. A fault is survived when everything that was
    in by then is answered. Exit status 1 where a result differs or a fault isn't survived.

    Services are started on this machine; with `where: kubernetes` in FILE, pods are struck.

    Examples:

        loadgen chaos --workload q3 --seed 7 --duration 2m

        loadgen chaos campaign.yaml --seed 7 --dry-run

        loadgen chaos '{workload: q3, where: kubernetes, pods: {namespace: joins, release: q3}}'
    """
    with one_sentence(is_debug=asked.debug):
        from loadgen.chaos.chaos_file import ChaosFile
        from loadgen.load.files import example, read

        if asked.schema:
            typer.echo(example(ChaosFile, workload="q3"), nl=False)
            return
        from loadgen.chaos.session import break_things, show_schedule

        given = {name: getattr(asked, name) for name in ("workload", "seed", "rate", "duration", "kinds")}
        file = read(ChaosFile, asked.file, given)
        if asked.dry_run:
            show_schedule(file)
            return
        raise typer.Exit(break_things(file))
