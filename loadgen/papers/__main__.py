"""Measure the papers' figures on this machine, and draw them: make figures.

python -m loadgen.papers [--quick] [--only NAME ...] [--list] [--output report/figures]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from loadgen import machine
from loadgen.errors import one_sentence
from loadgen.papers.catalog import ENTRIES, chosen
from loadgen.papers.model import Figure
from loadgen.papers.page import write
from loadgen.papers.run import Entry, FigureRun
from loadgen.papers.warm_up import warm_up

#: Seconds to measure all figures; drawing, and compiling on a first run, take a few minutes more.
TOTAL_S, QUICK_TOTAL_S = 35 * 60.0, 180.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and draw the chosen figures, and print the path of the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small windows and short measurements")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="a figure's name, or the beginning of it"
    )
    parser.add_argument("--list", action="store_true", help="print the figures' names and exit")
    parser.add_argument("--output", type=Path, default=Path("report/figures"))
    options = parser.parse_args(arguments)
    console = Console(highlight=False, soft_wrap=True)
    with one_sentence(is_debug=False):
        entries = chosen(options.only)
        if options.list:
            console.print("\n".join(entry.name for entry in entries))
            return
        console.print("compiling what isn't compiled yet ...")
        warm_up()
        figures = list(_measured(entries, console, is_quick=options.quick))
        console.print(f"{write(figures, machine.describe(), options.output)} written")


def _measured(entries: Sequence[Entry], console: Console, *, is_quick: bool) -> Iterator[Figure]:
    share = (QUICK_TOTAL_S if is_quick else TOTAL_S) / sum(entry.seconds for entry in ENTRIES)
    began, left = time.monotonic(), share * sum(entry.seconds for entry in entries)
    for number, entry in enumerate(entries, 1):
        console.print(f"{number:3} of {len(entries)}  {entry.name:24} about {left / 60:4.1f} minutes left")
        figure = entry.draw(FigureRun(share * entry.seconds, is_quick=is_quick, say=console.print))
        for claim in figure.claims:
            console.print(f"      {claim.verdict}: {claim.paper}: {claim.here}", style="dim")
        left -= share * entry.seconds
        yield figure
    console.print(f"measured in {(time.monotonic() - began) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
