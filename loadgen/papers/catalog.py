"""All figures, in the order of the report."""

from __future__ import annotations

from collections.abc import Sequence

from loadgen.papers import methods
from loadgen.papers.pim_tree import figures_08_09 as pim_tree_08
from loadgen.papers.pim_tree import figures_10_11 as pim_tree_10
from loadgen.papers.pim_tree import figures_12_13 as pim_tree_12
from loadgen.papers.ppoij import figures_10_12 as ppoij_10
from loadgen.papers.ppoij import figures_13_15 as ppoij_13
from loadgen.papers.ppoij import figures_16_18 as ppoij_16
from loadgen.papers.run import Entry
from loadgen.papers.scale_join import figures_05_06 as scale_join_05
from loadgen.papers.scale_join import figures_07_08 as scale_join_07
from loadgen.papers.spo_join import figures_07_11 as spo_join_07
from loadgen.papers.spo_join import figures_11_16_17 as spo_join_11
from loadgen.papers.spo_join import figures_12_15 as spo_join_12
from loadgen.papers.spo_join import figures_18_19 as spo_join_18
from loadgen.papers.spo_join import figures_20_23 as spo_join_20
from loadgen.papers.sta import figures_11_31 as sta_11
from loadgen.papers.sta import figures_32_35 as sta_32
from spojoin.errors import ConfigurationError

#: One tuple for each paper, whose figures are sorted by name.
_PAPERS: tuple[tuple[Entry, ...], ...] = (
    (*spo_join_07.ENTRIES, *spo_join_11.ENTRIES, *spo_join_12.ENTRIES, *spo_join_18.ENTRIES, *spo_join_20.ENTRIES),
    (*pim_tree_08.ENTRIES, *pim_tree_10.ENTRIES, *pim_tree_12.ENTRIES),
    (*sta_11.ENTRIES, *sta_32.ENTRIES),
    (*scale_join_05.ENTRIES, *scale_join_07.ENTRIES),
    (*ppoij_10.ENTRIES, *ppoij_13.ENTRIES, *ppoij_16.ENTRIES),
    methods.ENTRIES,
)
ENTRIES: tuple[Entry, ...] = tuple(entry for paper in _PAPERS for entry in sorted(paper, key=lambda each: each.name))


def chosen(names: Sequence[str]) -> list[Entry]:
    """The figures whose names begin with one of these; all if none is given. Raises ConfigurationError."""
    for name in names:
        if not any(entry.name.startswith(name) for entry in ENTRIES):
            known = ", ".join(entry.name for entry in ENTRIES)
            raise ConfigurationError(f"--only {name!r}: no figure's name begins with this; there are {known}")
    return [entry for entry in ENTRIES if not names or any(entry.name.startswith(name) for name in names)]
