"""The options of `loadgen engines`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from loadgen.engines.variants import VARIANTS
from loadgen.engines.workloads import QUESTIONS

Workloads = Annotated[str, typer.Option(help=f"Some of {', '.join(QUESTIONS)}, with commas. Default: all.")]
ExpectedVariants = Annotated[
    str, typer.Option("--variants", help=f"Some of {', '.join(VARIANTS)}, with commas. Default: all.")
]
Windows = Annotated[list[int] | None, typer.Option(help="Tuples of a window; repeatable.")]


@dataclass(frozen=True, slots=True)
class EnginesOptions:
    """The options of `loadgen engines run`."""

    engines: Annotated[
        str, typer.Option(help="Some of them, with commas: spo,duckdb,esper. Default: all; fewer for q4 to q10.")
    ] = ""
    workloads: Workloads = ""
    variants: Annotated[
        str, typer.Option(help=f"Some of {', '.join(VARIANTS)}, with commas. Default: all; three for q4 to q10.")
    ] = ""
    window: Windows = None
    budget: Annotated[float | None, typer.Option(help="Seconds for the probes of one engine and workload.")] = None
    fill_limit: Annotated[float, typer.Option(help="Seconds to start and to fill the window.")] = 90.0
    cpus: Annotated[int, typer.Option(help="Processors that an engine may use.")] = 1
    quick: Annotated[
        bool, typer.Option("--quick", help="One variant and a small window, only to see that everything runs.")
    ] = False
    output: Annotated[Path, typer.Option(help="The folder for the page and the CSV.")] = Path("report/benchmark")
