"""All figures in the order of the report: compiles their code, measures them on this machine, and draws them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from loadgen.bench import sections
from loadgen.bench.sections import Section, SectionContext
from loadgen.papers.figure import Entry, Figure, FigureRun
from loadgen.papers.figures import method_table, pim_tree, ppoij, scale_join, spo_join_cluster, spo_join_methods, sta
from loadgen.papers.joins import INEQUALITIES, MeasuredJoin, cross_join, query_text, self_join
from loadgen.papers.layout_cost import LayoutFeed, MeasuredLayout, cost
from loadgen.papers.layouts.catalog import LAYOUTS
from loadgen.papers.measurable import MethodWork, measure
from loadgen.papers.methods.catalog import METHODS
from loadgen.papers.page import write
from spojoin.arrays import F64
from spojoin.errors import ConfigurationError
from spojoin.model import DEFAULT_LAYOUT

#: One tuple for each paper, with its figures sorted by name.
_PAPERS: tuple[tuple[Entry, ...], ...] = (
    (*spo_join_methods.ENTRIES, *spo_join_cluster.ENTRIES),
    pim_tree.ENTRIES,
    sta.ENTRIES,
    scale_join.ENTRIES,
    ppoij.ENTRIES,
    method_table.ENTRIES,
)
ENTRIES: tuple[Entry, ...] = tuple(entry for paper in _PAPERS for entry in sorted(paper, key=lambda each: each.name))


def chosen(names: Sequence[str]) -> list[Entry]:
    """The figures whose names begin with one of these; all if none is given. Raises ConfigurationError."""
    for name in names:
        if not any(entry.name.startswith(name) for entry in ENTRIES):
            known = ", ".join(entry.name for entry in ENTRIES)
            raise ConfigurationError(f"--only {name!r}: no figure's name begins with this; there are {known}")
    return [entry for entry in ENTRIES if not names or any(entry.name.startswith(name) for name in names)]


WINDOW, ROWS = 400, 4_000
EQUALITY = "l.a = r.a AND l.b < r.b"
BAND = "ABS(l.a - r.a) <= 3"
#: The methods that workers of a layout run in some figure.
IN_LAYOUTS = ("chain_b", "pim_tree", "spo_paper")


def warm_up() -> None:
    """Run every method and layout on a few tuples; seconds, where the compiled code is cached."""
    for join in _joins():
        for name in METHODS:
            measure(join, MethodWork(name), 0.0)
    for each in _layouts():
        condition = EQUALITY if LAYOUTS[each.layout].needs_key else INEQUALITIES
        for names in (("rows", "rows"), ("left", "right")):
            cost(each, _feed(condition, names), 3, 0.0)


def _columns(seed: int) -> tuple[F64, F64]:
    a, b = np.random.default_rng(seed).integers(0, 50, (2, ROWS)).astype(float)
    return a, b


def _joins() -> Iterator[MeasuredJoin]:
    for condition in (INEQUALITIES, EQUALITY, BAND):
        yield self_join(condition, *_columns(1), WINDOW, WINDOW // 10)
        yield cross_join(condition, (_columns(1), _columns(2)), (WINDOW, WINDOW), (WINDOW // 10, WINDOW // 10))


def _layouts() -> Iterator[MeasuredLayout]:
    yield from (MeasuredLayout(name, name) for name in LAYOUTS if name != DEFAULT_LAYOUT)
    yield from (MeasuredLayout(name, "split_join", name) for name in IN_LAYOUTS)


def _feed(condition: str, names: tuple[str, str]) -> LayoutFeed:
    streams = len(set(names))
    columns = [dict(zip("ab", _columns(seed), strict=True)) for seed in range(streams)]
    return LayoutFeed(query_text(condition, names, WINDOW, WINDOW // 10), columns, (50,) * streams, WINDOW)


#: Seconds to measure all figures; drawing, and compiling on a first run, take a few minutes more.
TOTAL_S, QUICK_TOTAL_S = 35 * 60.0, 180.0


def draw(only: Sequence[str], folder: Path, *, is_quick: bool, names_alone: bool) -> None:
    """Measure and draw the figures whose names begin so, or all, and print the path of the report."""
    console = Console(highlight=False, soft_wrap=True)
    entries = chosen(only)
    if names_alone:
        console.print("\n".join(entry.name for entry in entries))
        return

    def show(figure: Figure) -> None:
        for claim in figure.claims:
            console.print(f"      {claim.verdict}: {claim.paper}: {claim.here}", style="dim")

    console.print("compiling what isn't compiled yet ...")
    warm_up()
    share = (QUICK_TOTAL_S if is_quick else TOTAL_S) / sum(entry.seconds for entry in ENTRIES)
    made = [_section(entry, share * entry.seconds, is_quick=is_quick) for entry in entries]
    results = sections.measure(made, None, console, show)
    console.print(f"{write(results.found, results.machine, folder)} written")
    results.raise_failures()


def _section(entry: Entry, seconds: float, *, is_quick: bool) -> Section[None, Figure]:
    """One figure, within its time."""

    def drawn(context: SectionContext[None]) -> Iterator[Figure]:
        yield entry.draw(FigureRun(seconds, is_quick=is_quick, say=context.say))

    return Section(entry.name, drawn, seconds)
