"""`python -m loadgen.promises`: measure everything that is promised; bars that are missed are said, not an error."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from loadgen.promises import machine, report
from loadgen.promises.context import Context
from loadgen.promises.figures import Measurement
from loadgen.promises.report import Report, SectionResult
from loadgen.promises.sections import NAMES, load, run_all
from loadgen.promises.sizes import FULL, QUICK
from spojoin.local.supervise import ending_on_signals

SectionName = StrEnum("SectionName", {name: name for name in NAMES})  # type: ignore[misc]
app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def main(
    only: Annotated[list[SectionName] | None, typer.Option(help="One section; repeatable. Default: all.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, to see that it runs; bars don't apply.")] = False,
    output: Annotated[Path, typer.Option(help="The folder for bench.json.")] = Path("bench-results"),
    publish: Annotated[Path | None, typer.Option(help="Write the table as a Markdown page, too.")] = None,
) -> None:
    """Measure, print a table, write bench.json. Leave the machine alone meanwhile.

    The exit status is 0 if everything could be measured; a section that fails is told at the end, with its traceback.
    """
    console = Console()
    described, started = machine.describe(), datetime.now(UTC).isoformat(timespec="seconds")
    sizes = QUICK if quick else FULL

    def keep(results: list[SectionResult]) -> None:
        made = Report(described, sizes, started, results)
        path = report.write_json(made, output)
        if publish:
            report.write_markdown(made, publish)
        console.print(report.table(made))
        console.print(f"{path} written", highlight=False)

    def context(scratch: Path, name: str) -> Context:
        console.rule(name)
        folder = scratch / name
        folder.mkdir()
        return Context(sizes, folder, console.log)

    chosen = {name: partial(load, name) for name in only or NAMES}
    with ending_on_signals(), tempfile.TemporaryDirectory(prefix="spojoin-bench-") as scratch:
        run_all(chosen, partial(context, Path(scratch)), partial(_show, console), keep)


def _show(console: Console, figure: Measurement) -> None:
    console.print(f"{figure.name}: {report.number(figure.value)} {figure.unit}", highlight=False)


if __name__ == "__main__":
    app()
