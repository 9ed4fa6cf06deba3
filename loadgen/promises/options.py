"""The options of `loadgen promises`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from loadgen.promises.sections import NAMES

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
