"""Draw the README's plot, throughput of methods by window, from a table on the page of the papers.

`make figures ONLY=methods` measures the table; `python -m loadgen.papers.methods_picture` then draws it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from loadgen.papers.figure import Figure, Panel, Series
from loadgen.papers.page import svg

PAGE = Path("loadgen/papers/README.md")
SECTION = "### Methods, measured\n"
PICTURE = Path("loadgen/papers/methods.svg")
#: The table's first columns: processor microseconds a tuple at these windows.
WINDOWS = (10_000, 100_000, 1_000_000)
#: Methods that the plot shows; the others' curves run close to one of these.
SHOWN = ("spo", "scan", "im_tree", "pim_tree", "chain_ib", "spo_paper", "css_bits", "bplus_bits", "sta")
_ROW = re.compile(r"(?m)^\| `(\w+)` \| ([\d.,]+) \| ([\d.,]+) \| ([\d.,]+) \|")


def measured_rates(methods: Iterable[str]) -> list[Series]:
    """Tuples a second of each method by window, from the table's microseconds a tuple."""
    table = PAGE.read_text().partition(SECTION)[2].partition("\n### ")[0]
    micros = {name: [float(cell.replace(",", "")) for cell in cells] for name, *cells in _ROW.findall(table)}
    return [Series(name, WINDOWS, [1e6 / each for each in micros[name]]) for name in methods]


def main() -> None:
    """Write the plot beside this module."""
    title = "Self join on two inequalities, 25 % of pairs match"
    series = measured_rates(SHOWN)
    panel = Panel(title, "tuples of window", "tuples/s on one thread", series, log_x=True, log_y=True)
    drawn = svg(Figure("methods", title, "", (panel,), ()))
    PICTURE.write_text(f'<?xml version="1.0" encoding="utf-8"?>\n{drawn}')


if __name__ == "__main__":
    main()
