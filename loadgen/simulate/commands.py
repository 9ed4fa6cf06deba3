"""`loadgen simulate`: the services' logic under seeded faults."""

# --help prints a command's docstring with its blank lines. Commands import modules when they run, so help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

import signal
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from loadgen.errors import one_sentence
from loadgen.load import options
from spojoin.cli.options import with_options
from spojoin.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """The seeds to run, and the planted bug."""

    seeds: Annotated[int, typer.Option(min=1, help="The number of seeds.")] = 2_000
    start: Annotated[
        int | None,
        typer.Option("--from", "--start", min=0, help="The first seed; default 0, of a campaign a fresh one."),
    ] = None
    seed: Annotated[int | None, typer.Option(min=0, help="Replay this seed only.")] = None
    keep: Annotated[Path | None, typer.Option(dir_okay=False, help="Write the scenario of --seed to this file.")] = None
    replay: Annotated[
        Path | None, typer.Option(dir_okay=False, exists=True, help="Run the scenario of this file, once kept.")
    ] = None
    mutant: Annotated[str | None, typer.Option(help="Plant a known bug, which must be found.")] = None
    generations: Annotated[
        bool, typer.Option("--generations", help="Replace the query with others while it is served.")
    ] = False
    statements: Annotated[
        bool, typer.Option("--statements", help="Draw filters, residual conditions, texts, NULL and select lists.")
    ] = False
    tables: Annotated[bool, typer.Option("--tables", help="Join with a table whose versions change.")] = False
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default one per core.")] = None
    campaign: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Run fresh seeds of all kinds, and continue those in this folder."),
    ] = None
    debug: options.Debug = False


@with_options
def simulate(asked: SimulateOptions) -> None:
    """Run the real services' logic through seeded faults, and compare every output with the oracle's.

    Examples:

        loadgen simulate --seeds 2000

        loadgen simulate --seed 1234

        loadgen simulate --seed 1234 --keep scenario.json

        loadgen simulate --replay scenario.json

        loadgen simulate --mutant no-epoch-barrier

        loadgen simulate --generations --seeds 500

        loadgen simulate --campaign report/campaign --seeds 1000000
    """
    with one_sentence(is_debug=asked.debug):
        raise typer.Exit(_seeds(asked) if asked.campaign is None else _campaign(asked, asked.campaign))


def _seeds(asked: SimulateOptions) -> int:
    from loadgen.simulate.runner import Simulation
    from loadgen.simulate.runner import simulate as run_seeds

    named = {field.name: getattr(asked, field.name) for field in fields(Simulation)}
    return run_seeds(Simulation(**named | {"start": asked.start or 0}))


def _campaign(asked: SimulateOptions, folder: Path) -> int:
    from loadgen.simulate.campaign import SeedCampaign, run_campaign

    if (
        asked.seed is not None
        or asked.keep
        or asked.replay
        or asked.mutant
        or asked.generations
        or asked.statements
        or asked.tables
    ):
        raise ConfigurationError("a campaign runs all kinds of seeds: --campaign goes with --seeds, --from and --jobs")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: its processes end, too
    return run_campaign(SeedCampaign(folder, asked.seeds, asked.start, asked.jobs))
