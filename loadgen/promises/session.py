"""`loadgen promises` from its options to its report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

from rich.console import Console

from loadgen.bench import sections
from loadgen.bench.measurement import Measurement
from loadgen.bench.pages import number
from loadgen.bench.sections import Section
from loadgen.promises import report
from loadgen.promises.sizes import FULL, QUICK, Context, PromiseSizes


def section(name: str) -> Section[PromiseSizes, Measurement]:
    """The section of this name. Its module is imported when it runs, so an import error fails only that section."""

    def measured(context: Context) -> Iterable[Measurement]:
        return cast("Iterable[Measurement]", import_module(f"loadgen.promises.{name}").measure(context))

    return Section(name, measured)


def measure(names: Sequence[str], folder: Path, *, is_quick: bool, publish: Path | None) -> None:
    """Run the sections, print and write their findings, then raise failures."""
    console = Console()

    def show(figure: Measurement) -> None:
        console.print(f"{figure.name}: {number(figure.value)} {figure.unit}", highlight=False)

    results = sections.measure([section(name) for name in names], QUICK if is_quick else FULL, console, show)
    path = report.write_json(results, folder)
    if publish is not None:
        report.publish(path, publish)
    console.print(report.table(results))
    console.print(f"{path} written", highlight=False)
    results.raise_failures()
