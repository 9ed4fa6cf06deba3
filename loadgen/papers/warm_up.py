"""Compiles what figures measure, before any is: a first run would find a compiler at work and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from loadgen.papers.joins import INEQUALITIES, MeasuredJoin, cross_join, query_text, self_join
from loadgen.papers.laid import Fed, Laid, cost
from loadgen.papers.meter import measure
from spojoin.model import DEFAULT_LAYOUT
from spojoin.published.layouts.catalog import LAYOUTS
from spojoin.published.methods.catalog import METHODS

WINDOW, ROWS = 400, 4_000
EQUALITY = "l.a = r.a AND l.b < r.b"
BAND = "ABS(l.a - r.a) <= 3"
#: Methods that layouts' workers run in some figure.
IN_LAYOUTS = ("chain_b", "pim_tree", "spo_paper")


def warm_up() -> None:
    """Every method and layout on a few tuples; what was compiled before takes seconds."""
    for join in _joins():
        for name in METHODS:
            measure(join, name, 0.0)
    for laid in _laid():
        condition = EQUALITY if LAYOUTS[laid.layout].needs_key else INEQUALITIES
        for names in (("rows", "rows"), ("left", "right")):
            cost(laid, _fed(condition, names), 3, 0.0)


def _columns(seed: int) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.random.default_rng(seed).integers(0, 50, (2, ROWS)).astype(float)
    return a, b


def _joins() -> Iterator[MeasuredJoin]:
    for condition in (INEQUALITIES, EQUALITY, BAND):
        yield self_join(condition, *_columns(1), WINDOW, WINDOW // 10)
        yield cross_join(condition, (_columns(1), _columns(2)), (WINDOW, WINDOW), (WINDOW // 10, WINDOW // 10))


def _laid() -> Iterator[Laid]:
    yield from (Laid(name, name) for name in LAYOUTS if name != DEFAULT_LAYOUT)
    yield from (Laid(name, "split_join", name) for name in IN_LAYOUTS)


def _fed(condition: str, names: tuple[str, str]) -> Fed:
    streams = len(set(names))
    columns = [dict(zip("ab", _columns(seed), strict=True)) for seed in range(streams)]
    return Fed(query_text(condition, names, WINDOW, WINDOW // 10), columns, (50,) * streams, WINDOW)
