"""`loadgen promises` from its options to its report."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console

from loadgen import machine
from loadgen.promises import report
from loadgen.promises.context import Context
from loadgen.promises.figures import Measurement
from loadgen.promises.options import PromisesOptions
from loadgen.promises.report import Report, SectionResult
from loadgen.promises.sections import NAMES, load, run_all
from loadgen.promises.sizes import FULL, QUICK
from spojoin.local.supervise import ending_on_signals


def measure(asked: PromisesOptions) -> None:
    """Run the sections, and print and write what they found. Raises ExceptionGroup of what failed."""
    console = Console()
    described, started = machine.describe(), datetime.now(UTC).isoformat(timespec="seconds")
    sizes = QUICK if asked.quick else FULL

    def keep(results: list[SectionResult]) -> None:
        made = Report(described, sizes, started, results)
        path = report.write_json(made, asked.output)
        if asked.publish:
            report.write_markdown(made, asked.publish)
        console.print(report.table(made))
        console.print(f"{path} written", highlight=False)

    def context(scratch: Path, name: str) -> Context:
        console.rule(name)
        folder = scratch / name
        folder.mkdir()
        return Context(sizes, folder, console.log)

    sections = {name: partial(load, name) for name in asked.only or NAMES}
    with ending_on_signals(), tempfile.TemporaryDirectory(prefix="spojoin-bench-") as scratch:
        run_all(sections, partial(context, Path(scratch)), partial(_show, console), keep)


def _show(console: Console, figure: Measurement) -> None:
    console.print(f"{figure.name}: {report.number(figure.value)} {figure.unit}", highlight=False)
