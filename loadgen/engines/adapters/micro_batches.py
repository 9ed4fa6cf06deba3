"""Engines for tables, asked again and again: a batch of probes against the window, as a stream's user of them would.

For most of a batch's window it doesn't matter which probe asks: the stored rows from the last probe's bound up to the
first probe are in every probe's window, and are joined by the workload's own conditions alone. The rows at both edges,
about as many as two batches, are joined with the bounds of each probe's window as two further conditions.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import pyarrow as pa

from loadgen.engines.adapters.engine import PythonEngine, pieces
from loadgen.engines.workloads import of_stream


class MicroBatches(PythonEngine):
    """Rows stay in memory as Arrow columns, so that storing costs nothing."""

    #: Probes of a batch, at most.
    batch_max: ClassVar[int] = 8_192

    @property
    def batch(self) -> int:
        """Probes of a batch: at most an eighth of the window, so that the edges stay small."""
        return min(self.batch_max, max(16, self.workload.window // 8))

    def fill(self, first: int, last: int) -> None:
        """Nothing to do."""

    def probe(self, first: int, last: int) -> int:
        """Join batch by batch."""
        return sum(self._joined(*each) for each in pieces(first, last, self.batch))

    def _joined(self, first: int, last: int) -> int:
        length = self.workload.fill
        common, edges = [(last - 1 - length, first)], [(first - length, last - 1 - length), (first, last - 1)]
        bounds = (f"s.seq >= p.seq - {length}", "s.seq < p.seq")
        found = 0
        for probing in self.workload.probings:
            probes = self._rows([(first, last)], probing.probes)
            inner = self.count(probing.conditions, probes, self._rows(common, probing.stored))
            outer = self.count((*probing.conditions, *bounds), probes, self._rows(edges, probing.stored))
            found += probing.times * (inner + outer)
        return found

    def _rows(self, ranges: list[tuple[int, int]], parity: int | None) -> pa.Table:
        at = np.concatenate([of_stream(np.arange(*each, dtype=np.int64), parity, each[0]) for each in ranges])
        a, b = (column[at] for column in self.workload.columns)
        return pa.table({"seq": at, "a": a, "b": b})

    @abstractmethod
    def count(self, conditions: tuple[str, ...], probes: pa.Table, stored: pa.Table) -> int:
        """How many pairs of probes p and stored rows s, columns seq, a, b, meet all conditions."""
