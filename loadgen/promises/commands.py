"""`loadgen promises`: measure every speed that is promised."""

# A command's docstring is what --help shows, blank lines and all. Imports stand inside, so that help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from loadgen.errors import one_sentence
from loadgen.promises.sections import NAMES
from spojoin.cli.options import with_options

SectionName = StrEnum("SectionName", {name: name for name in NAMES})  # type: ignore[misc]  # members are data


@dataclass(frozen=True, slots=True)
class PromisesOptions:
    """Those of `loadgen promises`."""

    only: Annotated[list[SectionName] | None, typer.Option(help="One section; repeatable. Default: all.")] = None
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes, only to see that everything runs; bars don't apply.")
    ] = False
    output: Annotated[Path, typer.Option(help="The folder for bench.json.")] = Path("bench-results")
    publish: Annotated[Path | None, typer.Option(help="Write the table as a Markdown page as well.")] = None


@with_options
def promises(asked: PromisesOptions) -> None:
    """Measure, print a table, write bench.json. Leave the machine alone meanwhile.

    A bar that is missed is shown as missed and is no error. The exit status is 0 if everything could be measured; the
    traceback of a section that fails comes at the end.

    Example:

        loadgen promises --only probe
    """
    with one_sentence(is_debug=False):
        from loadgen.promises.session import measure

        measure(asked)
