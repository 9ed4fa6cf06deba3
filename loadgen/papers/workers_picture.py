"""Draw the README's plot, rates by rows of workers beside published methods on one thread, from tables on two pages.

`loadgen promises --only scale --publish loadgen/promises/README.md` measures the rates;
`python -m loadgen.papers.workers_picture` then draws them. A method has one thread, so its rate stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from loadgen.papers.figure import Figure, Panel, Series
from loadgen.papers.methods_picture import WINDOWS, measured_rates
from loadgen.papers.page import svg

PAGE = Path("loadgen/promises/README.md")
PICTURE = Path("loadgen/papers/workers.svg")
WINDOW = 1_000_000
#: Methods that the plot shows: the fastest, and the paper's own.
SHOWN = ("scan", "chain_ib", "im_tree", "pim_tree", "spo_paper")
#: A rate of plain counts in section `scale`.
_RATE = re.compile(r"(?m)^\| scale \| (\d+) rows? of workers: rate of the busiest process \| ([\d,]+) \|")


def curve(page: str) -> Series:
    """Tuples a second by rows of workers."""
    points = sorted((int(rows), float(rate.replace(",", ""))) for rows, rate in _RATE.findall(page))
    return Series("spojoin", [rows for rows, _ in points], [rate for _, rate in points])


def peers(rows_of: Sequence[float | str]) -> Iterator[Series]:
    """The rate of each method shown, which does not change with the rows of workers."""
    at = WINDOWS.index(WINDOW)
    for each in measured_rates(SHOWN):
        yield Series(f"{each.name}, one thread", rows_of, [each.y[at]] * len(rows_of))


def main() -> None:
    """Write the plot beside this module."""
    title = f"Self join on two inequalities, window of {WINDOW:,}"
    own = curve(PAGE.read_text())
    series = [own, *peers(own.x)]
    panel = Panel(title, "rows of workers, each with a core", "tuples/s of the busiest process", series, log_y=True)
    drawn = svg(Figure("workers", title, "", (panel,), ()))
    PICTURE.write_text(f'<?xml version="1.0" encoding="utf-8"?>\n{drawn}')


if __name__ == "__main__":
    main()
