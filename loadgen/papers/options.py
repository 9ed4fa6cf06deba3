"""What `loadgen papers` can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer


@dataclass(frozen=True, slots=True)
class PapersOptions:
    """Which figures, how thoroughly, and where the report goes."""

    quick: Annotated[bool, typer.Option("--quick", help="Small windows and short measurements.")] = False
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A figure's name, or the beginning of it; repeatable.")
    ] = None
    show_names: Annotated[bool, typer.Option("--list", help="Print the figures' names and exit.")] = False
    output: Annotated[Path, typer.Option(help="The folder for the report.")] = Path("report/figures")
