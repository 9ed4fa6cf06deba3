"""The probes of a frame, grouped by the keys that stored tuples must equal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spojoin.kernels.composite import Grouping, Nested, grouped, nest, refined
from spojoin.kernels.ranks import Sought


class ProbeKeys:
    """m probes in g groups of equal keys; each distinct key is searched once in each node.

    first: the distinct codes of the first key; further: for each further key, its codes within groups of earlier keys
    grouping: the probes, grouped by all keys
    """

    def __init__(self, first: Sought, further: tuple[Nested, ...], grouping: Grouping) -> None:
        self.first, self.further, self.grouping = first, further, grouping
        self._nested: dict[Sought, Nested] = {}

    def nested(self, wanted: Sought) -> Nested:
        """The values for which the probes search, each within its group."""
        if wanted not in self._nested:
            values, probes = nest(self.grouping, wanted.values, wanted.probes)
            self._nested[wanted] = Nested(self.grouping.starts, values, probes)
        return self._nested[wanted]


def probe_keys(keys: Sequence[Sought]) -> ProbeKeys:
    """The probes, grouped by what they seek in one or more key columns."""
    first = grouping = grouped(keys[0].values, keys[0].probes)
    further = []
    for key in keys[1:]:
        values, probes = nest(grouping, key.values, key.probes)
        finer = refined(grouping.starts, values, probes)
        begins = finer.starts[:-1]
        further.append(Nested(np.searchsorted(begins, grouping.starts), values[begins], np.arange(len(begins))))
        grouping = finer
    begins = first.starts[:-1]
    return ProbeKeys(Sought(keys[0].values[begins], np.arange(len(begins))), tuple(further), grouping)
