"""`loadgen promises`: measure every speed that is promised."""

# --help prints a command's docstring with its blank lines. Commands import modules when they run, so help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from loadgen.errors import one_sentence
from spojoin.cli.options import with_options

#: All sections, in the order of running; each is the module of its name.
NAMES = (
    "scan",
    "probe",
    "slides",
    "encoding",
    "embedded",
    "threads",
    "start",
    "pairs",
    "payload",
    "listing",
    "index",
    "answers",
    "frames",
    "history",
    "services",
    "served",
    "featured",
    "results_source",
    "broker",
    "scale",
    "heavy",
    "columns",
)
SectionName = StrEnum("SectionName", {name: name for name in NAMES})  # type: ignore[misc]  # members are data


@dataclass(frozen=True, slots=True)
class PromisesOptions:
    """The options of `loadgen promises`."""

    only: Annotated[list[SectionName] | None, typer.Option(help="One section; repeatable. Default: all.")] = None
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes, only to see that everything runs; bars don't apply.")
    ] = False
    output: Annotated[Path, typer.Option(help="The folder for bench.json.")] = Path("bench-results")
    publish: Annotated[Path | None, typer.Option(help="A Markdown page to write as well; all else on it stays.")] = None


@with_options
def promises(asked: PromisesOptions) -> None:
    """Measure, print a table, write bench.json. Use the machine for nothing more meanwhile.

    A missed bar is no error; the table shows it. The exit status is 0 if all sections ran; tracebacks of failed
    sections come last.

    Example:

        loadgen promises --only probe
    """
    with one_sentence(is_debug=False):
        from loadgen.promises.session import measure

        measure(asked.only or NAMES, asked.output, is_quick=asked.quick, publish=asked.publish)
