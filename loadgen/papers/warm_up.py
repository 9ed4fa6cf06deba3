"""Compiles every method and layout before the first measurement, which would otherwise time the compiler."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from loadgen.papers.joins import F64, INEQUALITIES, MeasuredJoin, cross_join, query_text, self_join
from loadgen.papers.layout_cost import LayoutFeed, MeasuredLayout, cost
from loadgen.papers.measurable import MethodWork
from loadgen.papers.meter import measure
from spojoin.model import DEFAULT_LAYOUT
from spojoin.published.layouts.catalog import LAYOUTS
from spojoin.published.methods.catalog import METHODS

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
