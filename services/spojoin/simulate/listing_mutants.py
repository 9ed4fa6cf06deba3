"""Planted bugs in how partners are listed; each must be found."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from spojoin.index import assembly
from spojoin.index.node import Node
from spojoin.index.stream_index import StreamIndex
from spojoin.kernels import listing
from spojoin.kernels.counting import CountPlan
from spojoin.simulate.mutants import Mutant, Patches, planted
from spojoin.wire.records import I64

LISTING_MUTANTS: dict[str, Mutant] = {}
_mutant = partial(planted, LISTING_MUTANTS)

#: Rows of what `listing.asked` gives: where an interval of ranks begins and ends.
_BEGIN, _END = 0, 1


@_mutant("slice-with-its-end", "the tuple behind an interval of ranks is listed, too")
def _slice_with_its_end() -> Patches:
    asked = listing.asked

    def longer(nodes: I64, entries: I64, plan: CountPlan, m: int, widths: I64) -> Any:  # noqa: ANN401
        found = asked(nodes, entries, plan, m, widths)
        sizes = nodes[:, 0].astype(np.uint32)[:, np.newaxis, np.newaxis]
        found[:, :, _END] = np.minimum(found[:, :, _END] + 1, sizes)
        return found

    return [patch.object(listing, "asked", longer)]


@_mutant("ranks-of-the-other-direction", "a direction lists what the other one's intervals hold")
def _ranks_of_the_other_direction() -> Patches:
    asked = listing.asked

    def swapped(nodes: I64, entries: I64, plan: CountPlan, m: int, widths: I64) -> Any:  # noqa: ANN401
        return np.ascontiguousarray(asked(nodes, entries, plan, m, widths)[:, ::-1])

    return [patch.object(listing, "asked", swapped)]


@_mutant("partners-behind-the-window", "nodes that some probes' windows no longer hold are searched for all of them")
def _partners_behind_the_window() -> Patches:
    alike = StreamIndex._answer_alike

    def none_missed(self: StreamIndex, nodes: list[Node], probes: Any, _missed: Any, *others: Any) -> None:  # noqa: ANN401
        alike(self, nodes, probes, None, *others)

    return [patch.object(StreamIndex, "_answer_alike", none_missed)]


@_mutant("partners-by-node", "partners are given in the order in which nodes were searched")
def _partners_by_node() -> Patches:
    return [patch.object(assembly, "sort_segments", lambda _offsets, _values: None)]
