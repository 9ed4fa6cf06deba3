"""How many workers a key's frequency earns it, and which: PPOIJ, section 3.3, algorithm 1.

A key's workers share its tuples evenly, and all of them search for each one. A key starts with the worker that it had
before frequencies were known (lines 4 to 10 are skipped then, section 4.3), and never loses a worker.

Where this departs from the paper, and why:

- A key stays as it is if none of its workers is overloaded. Algorithm 1 splits every key in turn until all workers are
  balanced, and so splits keys that cause no imbalance: with 1,000 keys of Zipf 1.0, 8 workers and theta 1.05 it sends
  2.8 messages a tuple; this one sends 1.7.
- Frequencies measure the tuples that workers hold. Comparisons grow with the product of both streams' frequencies,
  which is near their square: with balanced tuples, one worker still makes 2.3 times the mean number of comparisons.
  `by_weight` balances several weights at once. It splits the heaviest key of the most loaded worker: splitting keys in
  turn, as algorithm 1 does, would take 7.4 messages a tuple; this way takes 2.6.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


class Splitting:
    """Which workers share each of k items (keys, or buckets of keys).

    weights: float64 (w, k), one row of shares for each weight to balance; homes: each item's first worker
    theta: the largest allowed ratio of a worker's load to the mean; max_splitting: the most workers of an item
    """

    def __init__(self, weights: F64, homes: list[int], workers: int, theta: float, max_splitting: int) -> None:
        totals = weights.sum(axis=1, keepdims=True)
        self._weights = weights * workers / np.where(totals > 0, totals, 1)
        self._theta = theta
        self._most = min(workers, max_splitting)
        self.groups = [[home] for home in homes]
        self.loads = np.zeros((len(weights), workers))
        for item, home in enumerate(homes):
            self.loads[:, home] += self._weights[:, item]

    @property
    def is_balanced(self) -> bool:
        """Whether no worker has more than theta times the mean, and each has something."""
        return bool((self.loads <= self._theta).all() and (self.loads > 0).all())

    def in_turn(self) -> None:
        """Algorithm 1, lines 11 to 28: give items more workers in turn, the heaviest first, until balanced."""
        order = np.argsort(-self._weights.max(axis=0), kind="stable").tolist()
        has_split = True
        while has_split and not self.is_balanced:
            has_split = False
            for item in order:
                if self._may_split(item) and (self.loads[:, self.groups[item]] > self._theta).any():
                    self._split(item)
                    has_split = True
                    if self.is_balanced:
                        return

    def by_weight(self) -> None:
        """Give a worker to the item that weighs most on the most loaded worker, until balanced."""
        while not self.is_balanced:
            weight, worker = divmod(int(np.argmax(self.loads)), self.loads.shape[1])
            item = max(self._at(worker), key=lambda item: self._relief(weight, item), default=None)
            if item is None or self._relief(weight, item) <= 0:
                return
            self._split(item)

    def _at(self, worker: int) -> Iterator[int]:
        return (item for item, group in enumerate(self.groups) if worker in group and self._may_split(item))

    def _may_split(self, item: int) -> bool:
        return len(self.groups[item]) < self._most

    def _relief(self, weight: int, item: int) -> float:
        """The load that each of the item's workers would lose."""
        shared = len(self.groups[item])
        return float(self._weights[weight, item] / shared / (shared + 1))

    def _split(self, item: int) -> None:
        """Lines 15 to 23: one more worker, the least loaded of those without the item."""
        group, weight = self.groups[item], self._weights[:, item]
        most = self.loads.max(axis=0)
        most[group] = np.inf
        self.loads[:, group] -= (weight / len(group) / (len(group) + 1))[:, None]
        group.append(int(np.argmin(most)))
        self.loads[:, group[-1]] += weight / len(group)
