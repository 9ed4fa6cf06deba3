"""`loadgen papers`."""

# A command's docstring is what --help shows, blank lines and all. Imports stand inside, so that help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True)
class PapersOptions:
    """Those of `loadgen papers`."""

    quick: Annotated[bool, typer.Option("--quick", help="Small windows and short measurements.")] = False
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A figure's name, or the beginning of it; repeatable.")
    ] = None
    show_names: Annotated[bool, typer.Option("--list", help="Print the figures' names and exit.")] = False
    output: Annotated[Path, typer.Option(help="The folder for the report.")] = Path("report/figures")


@with_options
def papers(asked: PapersOptions) -> None:
    """Measure the papers' figures on this machine, and draw them.

    Example:

        loadgen papers --quick --only pim_tree
    """
    from loadgen.papers.__main__ import main

    only = [argument for name in asked.only or () for argument in ("--only", name)]
    switches = ["--quick"] * asked.quick + ["--list"] * asked.show_names
    main([*switches, *only, "--output", str(asked.output)])
