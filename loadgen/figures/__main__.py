"""Measure every method of search side by side, and draw it: make figures.

python -m loadgen.figures [--quick] [--output report/figures]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from loadgen.bench import machine
from loadgen.errors import one_sentence
from loadgen.figures.measure import Measured, measure
from loadgen.figures.report import Figure, ratios, write
from loadgen.figures.workloads import WORKLOADS, Workload
from spojoin.query.methods import METHODS

WINDOWS, QUICK_WINDOWS = (10_000, 100_000, 1_000_000), (1_000, 10_000)
SECONDS, QUICK_SECONDS = 2.0, 0.2
PAPER = (
    "SPO-Join, figures 7 to 9: throughput of mutable and immutable methods. The paper's workers are Storm tasks; here "
    "it is one thread, and a tuple is stored and searched for in both roles. Slides are a tenth of the window's tuples."
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, draw, and say where the report is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small windows and short measurements")
    parser.add_argument("--output", type=Path, default=Path("report/figures"))
    asked = parser.parse_args(arguments)
    console = Console()
    with one_sentence(is_debug=False):
        figures = [_figure(workload, console, is_quick=asked.quick) for workload in WORKLOADS]
        console.print(f"{write(figures, machine.describe(), asked.output)} written", highlight=False)


def _figure(workload: Workload, console: Console, *, is_quick: bool) -> Figure:
    rows = list(_measured(workload, console, is_quick=is_quick))
    return Figure(workload.name, f"{workload.paper}, {workload.about}", PAPER, rows)


def _measured(workload: Workload, console: Console, *, is_quick: bool) -> Iterator[Measured]:
    for window in QUICK_WINDOWS if is_quick else WINDOWS:
        of_window = [measure(name, workload, window, QUICK_SECONDS if is_quick else SECONDS) for name in METHODS]
        times = ratios(of_window)
        for row in of_window:
            us = row.error or f"{row.us:12,.2f} us a tuple, {times.get((row.method, window), 0):10,.1f} times spo's"
            console.print(f"{workload.name:14} W={window:9,} {row.method:12} {us}", highlight=False, soft_wrap=True)
        yield from of_window


if __name__ == "__main__":
    main()
