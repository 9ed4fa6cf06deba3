"""Engines for tables that join batches of probes with the window, as their users would for a stream.

Most of the window is common to all probes of a batch: the stored rows from the last probe's bound up to the first probe
are in every probe's window, so the workload's own conditions suffice to join them. The rows at both edges, about as
many as two batches, are joined with the bounds of each probe's window as two further conditions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa

from loadgen.engines.adapters.engine import PythonEngine, pieces
from loadgen.engines.workloads import Gathered, Probing, of_stream
from spojoin.arrays import I64


class MicroBatches(PythonEngine):
    """An engine whose rows stay in memory as Arrow columns, so that storing costs nothing."""

    #: The most probes of a batch.
    batch_max: ClassVar[int] = 8_192

    @property
    def batch(self) -> int:
        """Probes of a batch: at most an eighth of the window, so that the edges stay small."""
        return min(self.batch_max, max(16, self.workload.window // 8))

    def fill(self, first: int, last: int) -> None:
        pass

    def probe(self, first: int, last: int) -> int:
        """Join batch by batch."""
        joined = self._answered if self.workload.question.asks else self._joined
        return sum(joined(*each) for each in pieces(first, last, self.batch))

    def _joined(self, first: int, last: int) -> int:
        return sum(
            probing.times * self.count(*each)
            for probing in self.workload.probings
            for each in self._parts(probing, first, last)
        )

    def _answered(self, first: int, last: int) -> int:
        """A probe's state combines partners in the middle of the batch's window and partners at its edges."""
        answer, states = self.workload.answer, np.zeros(last - first, np.int64)
        (probing,) = self.workload.probings
        for each in self._parts(probing, first, last):
            probes, values = self.gather(answer.gathered, *each)
            answer.gather(states, probes - first, values)
        return answer.total(states, self.workload.columns.get("c"))

    def _parts(self, probing: Probing, first: int, last: int) -> Iterator[tuple[tuple[str, ...], pa.Table, pa.Table]]:
        """Conditions, probes and stored rows of the two joins that make up a batch's join."""
        length = self.workload.fill
        common, edges = [(last - 1 - length, first)], [(first - length, last - 1 - length), (first, last - 1)]
        bounds = (f"s.seq >= p.seq - {length}", "s.seq < p.seq")
        probes = self._rows([(first, last)], probing.probes)
        yield probing.conditions, probes, self._rows(common, probing.stored)
        yield (*probing.conditions, *bounds), probes, self._rows(edges, probing.stored)

    def _rows(self, ranges: list[tuple[int, int]], parity: int | None) -> pa.Table:
        at = np.concatenate([of_stream(np.arange(*each, dtype=np.int64), parity, each[0]) for each in ranges])
        return pa.table({"seq": at} | {name: column[at] for name, column in self.workload.columns.items()})

    @abstractmethod
    def count(self, conditions: tuple[str, ...], probes: pa.Table, stored: pa.Table) -> int:
        """The number of pairs of probes p and stored rows s, columns seq, a, b, that meet all conditions."""

    @abstractmethod
    def gather(
        self, gathered: Gathered, conditions: tuple[str, ...], probes: pa.Table, stored: pa.Table
    ) -> tuple[I64, I64]:
        """The numbers of all probes with partners, in any order, and the states of these probes: int64 (m,) each.

        If pairs are listed, a number and a state for each pair.
        """
