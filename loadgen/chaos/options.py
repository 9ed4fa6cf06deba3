"""The options of `loadgen chaos`, `loadgen silence` and `loadgen soak`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from loadgen.load import options
from loadgen.load.formats import MessageFormat


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    """The options of `loadgen chaos`."""

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


@dataclass(frozen=True, slots=True)
class SilenceOptions:
    """The served query, and the faults that strike its services."""

    packing: Annotated[
        str, typer.Option(help="Which roles share a process: together, apart, or groups such as `router+sink`.")
    ] = "together"
    standbys: Annotated[bool, typer.Option(help="Whether each process has a second instance.")] = True
    kills: Annotated[int, typer.Option(min=0, help="How often a service is ended by SIGKILL.")] = 100
    stops: Annotated[int, typer.Option(min=0, help="How often a service is stopped by SIGSTOP.")] = 50
    stopped: Annotated[float, typer.Option(min=0.1, help="Seconds from SIGSTOP to SIGCONT.")] = 10.0
    upgrades: Annotated[int, typer.Option(min=0, help="How often every process is replaced by a new one.")] = 0
    replacements: Annotated[int, typer.Option(min=0, help="How often another query replaces the one served.")] = 0
    restarts: Annotated[int, typer.Option(min=0, help="How often Kafka is killed and started again.")] = 3
    redis: Annotated[bool, typer.Option(help="Whether Redis is killed for good, last of all.")] = True
    rate: Annotated[float, typer.Option(min=1, help="Rows a second.")] = 10_000.0
    window: Annotated[int, typer.Option(min=10, help="Tuples of the window, full at the first fault.")] = 1_000_000
    message: Annotated[
        MessageFormat, typer.Option(help="How rows are sent; a query that takes over reads those of its window again.")
    ] = MessageFormat.ARROW
    workers: Annotated[int, typer.Option(min=1, help="Rows of PO-Join workers, each of which holds the window.")] = 1
    struck: Annotated[
        str, typer.Option(help="Strike only services whose names begin so, such as pojoin.", show_default=False)
    ] = ""
    patience_ms: Annotated[
        int, typer.Option(min=20, help="How long an instance may be silent before its standby speaks.")
    ] = 500
    seed: options.Seed = 0
    output: Annotated[Path | None, typer.Option(help="A folder for silence.md and silence.json.")] = None
    logs: Annotated[Path | None, typer.Option(help="A folder for the services' logs. Default: a temporary one.")] = None
    debug: options.Debug = False


@dataclass(frozen=True, slots=True)
class SoakOptions:
    """The soak's query, duration and acts."""

    minutes: Annotated[float, typer.Option(min=0.05, help="How long it lasts.")] = 60.0
    seed: Annotated[int | None, typer.Option(min=0, help="Chooses rows and acts. Default: any; it is printed.")] = None
    rate: Annotated[float, typer.Option(min=1, help="Rows a second.")] = 2_000.0
    window: Annotated[int, typer.Option(min=10, help="Tuples of the window.")] = 2_000
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two acts while all is well, on average.")] = 8.0
    workers: Annotated[int, typer.Option(min=1, help="The largest number of workers.")] = 2
    sinks: Annotated[
        int | None,
        typer.Option(min=1, help="Sinks, each with a partition of the results. Default: 1 or 2, by the seed."),
    ] = None
    kinds: Annotated[
        str | None,
        typer.Option(
            help="Which acts, with commas: kill, stop, broker, redis, rescale, move, standbys. Default: all.",
            metavar="ACT,...",
        ),
    ] = None
    stall: Annotated[float, typer.Option(min=1, help="Seconds without a result that count as stuck.")] = 180.0
    output: Annotated[Path | None, typer.Option(help="A folder for soak.md, and the services' logs.")] = None
    debug: options.Debug = False
