"""All figures, in the order of the report."""

from __future__ import annotations

from collections.abc import Sequence

from loadgen.papers import methods, pim_tree, ppoij, scale_join, spo_join, spo_join_cluster, spo_join_parts, sta
from loadgen.papers.model import Entry
from spojoin.errors import ConfigurationError

#: One tuple a paper; within it figures stand in their order, whatever module draws them.
_PAPERS = (
    (*spo_join.ENTRIES, *spo_join_parts.ENTRIES, *spo_join_cluster.ENTRIES),
    pim_tree.ENTRIES,
    sta.ENTRIES,
    scale_join.ENTRIES,
    ppoij.ENTRIES,
    methods.ENTRIES,
)
ENTRIES: tuple[Entry, ...] = tuple(entry for paper in _PAPERS for entry in sorted(paper, key=lambda each: each.name))


def chosen(names: Sequence[str]) -> list[Entry]:
    """The figures whose names begin with one of these; all where none is given. Raises ConfigurationError."""
    for name in names:
        if not any(entry.name.startswith(name) for entry in ENTRIES):
            known = ", ".join(entry.name for entry in ENTRIES)
            raise ConfigurationError(f"--only {name!r}: no figure's name begins so; there are {known}")
    return [entry for entry in ENTRIES if not names or any(entry.name.startswith(name) for name in names)]
