"""The options of `loadgen soak`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from loadgen.load import options


@dataclass(frozen=True, slots=True)
class SoakOptions:
    """What is soaked, for how long, and by what."""

    minutes: Annotated[float, typer.Option(min=0.05, help="How long it lasts.")] = 60.0
    seed: Annotated[int | None, typer.Option(min=0, help="Chooses rows and acts. Default: any; it is printed.")] = None
    rate: Annotated[float, typer.Option(min=1, help="Rows a second.")] = 2_000.0
    window: Annotated[int, typer.Option(min=10, help="Tuples of the window.")] = 2_000
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two acts while all is well, on average.")] = 8.0
    workers: Annotated[int, typer.Option(min=1, help="The largest number of workers.")] = 2
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
