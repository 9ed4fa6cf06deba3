"""`spojoin simulate`: the services' logic under seeded faults."""

from __future__ import annotations

import signal
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from spojoin.cli.commands.common import Debug
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """Which seeds to run, and with which planted bug."""

    seeds: Annotated[int, typer.Option(min=1, help="The number of seeds.")] = 2_000
    start: Annotated[
        int | None,
        typer.Option("--from", "--start", min=0, help="The first seed; default 0, of a campaign a fresh one."),
    ] = None
    seed: Annotated[int | None, typer.Option(min=0, help="Replay this seed only.")] = None
    mutant: Annotated[str | None, typer.Option(help="Plant a known bug, which must be found.")] = None
    generations: Annotated[
        bool, typer.Option("--generations", help="Replace the query with others while it is served.")
    ] = False
    statements: Annotated[
        bool, typer.Option("--statements", help="Draw filters, residual conditions, texts, NULL and select lists.")
    ] = False
    tables: Annotated[bool, typer.Option("--tables", help="Join statements with a table, of which versions come.")] = (
        False
    )
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default one per core.")] = None
    campaign: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Run fresh seeds of all kinds, and go on with those in this folder."),
    ] = None
    debug: Debug = False


@with_options
def simulate(options: SimulateOptions) -> None:
    """Run the real services' logic through seeded faults, and compare every output with the oracle's.

    Examples:

        spojoin simulate --seeds 2000

        spojoin simulate --seed 1234

        spojoin simulate --mutant no-epoch-barrier

        spojoin simulate --generations --seeds 500

        spojoin simulate --campaign report/campaign --seeds 1000000
    """
    with one_sentence(is_debug=options.debug):
        raise typer.Exit(_seeds(options) if options.campaign is None else _campaign(options, options.campaign))


def _seeds(options: SimulateOptions) -> int:
    from spojoin.simulate.runner import Simulation
    from spojoin.simulate.runner import simulate as run_seeds

    named = {field.name: getattr(options, field.name) for field in fields(Simulation)}
    return run_seeds(Simulation(**named | {"start": options.start or 0}))


def _campaign(options: SimulateOptions, folder: Path) -> int:
    from spojoin.errors import ConfigurationError
    from spojoin.simulate.campaign import SeedCampaign, run_campaign

    if options.seed is not None or options.mutant or options.generations or options.statements or options.tables:
        raise ConfigurationError("a campaign runs all kinds of seeds: --campaign goes with --seeds, --from and --jobs")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: its processes end, too
    return run_campaign(SeedCampaign(folder, options.seeds, options.start, options.jobs))
