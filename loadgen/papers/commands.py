"""`loadgen papers`: the papers' figures, measured again."""

# --help prints a command's docstring with its blank lines. Commands import modules when they run, so help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from loadgen.errors import one_sentence
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True)
class PapersOptions:
    """The figures to measure, the thoroughness, and the folder of the report."""

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
    with one_sentence(is_debug=False):
        from loadgen.papers.session import draw

        draw(asked.only or (), asked.output, is_quick=asked.quick, names_alone=asked.show_names)
