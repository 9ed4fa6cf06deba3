"""Measures the papers' figures on this machine, and draws them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from rich.console import Console

from loadgen import machine
from loadgen.papers.catalog import ENTRIES, chosen
from loadgen.papers.model import Figure
from loadgen.papers.options import PapersOptions
from loadgen.papers.page import write
from loadgen.papers.run import Entry, FigureRun
from loadgen.papers.warm_up import warm_up

#: Seconds to measure all figures; drawing, and compiling on a first run, take a few minutes more.
TOTAL_S, QUICK_TOTAL_S = 35 * 60.0, 180.0


def draw(asked: PapersOptions) -> None:
    """Measure and draw the chosen figures, and print the path of the report."""
    console = Console(highlight=False, soft_wrap=True)
    entries = chosen(asked.only or ())
    if asked.show_names:
        console.print("\n".join(entry.name for entry in entries))
        return
    console.print("compiling what isn't compiled yet ...")
    warm_up()
    figures = list(_measured(entries, console, is_quick=asked.quick))
    console.print(f"{write(figures, machine.describe(), asked.output)} written")


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
