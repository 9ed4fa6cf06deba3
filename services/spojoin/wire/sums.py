"""Sums beside counts: what partners add to aggregates, as numbers that add up in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64

#: Keys of one measure: `measure * KEYS + part`, where part is a digit of the values, or one of the following four.
KEYS = 128
#: Parts that count NaN, positive and negative infinite values, and partners without a value.
NOT_A_NUMBER, INFINITE, NEGATIVE_INFINITE, MISSING = 124, 125, 126, 127


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Weights of n tuples, or their sums for n probes; for absent keys, all are 0.

    keys: int64 (k,), ascending; rows: int64 (k, n)
    """

    keys: I64
    rows: I64

    def __len__(self) -> int:
        return int(self.rows.shape[1])

    def __getitem__(self, chosen: slice | NDArray[np.bool_] | I64) -> Sums:
        """The sums of some tuples or probes."""
        return Sums(self.keys, self.rows[:, chosen])

    def copy(self) -> Sums:
        """A copy with its own memory."""
        return Sums(self.keys, self.rows.copy())

    @property
    def nbytes(self) -> int:
        """The size of both arrays in bytes."""
        return self.keys.nbytes + self.rows.nbytes

    def of_keys(self, keys: I64) -> I64:
        """The rows of ascending `keys`, which include all present keys: int64 (k, n)."""
        if len(keys) == len(self.keys):
            return self.rows
        rows = np.zeros((len(keys), len(self)), np.int64)
        rows[np.searchsorted(keys, self.keys)] = self.rows
        return rows


def no_sums(n: int) -> Sums:
    return Sums(np.empty(0, np.int64), np.empty((0, n), np.int64))


def joined(parts: Sequence[Sums]) -> Sums:
    """The sums of consecutive runs of tuples or probes, concatenated."""
    if len(parts) == 1:
        return parts[0]
    keys = _all_keys(parts)
    return Sums(keys, np.concatenate([part.of_keys(keys) for part in parts], axis=1))


def added(parts: Sequence[Sums]) -> Sums:
    """The sums of the same probes in several parts of a window."""
    if len(parts) == 1:
        return parts[0]
    keys = _all_keys(parts)
    return Sums(keys, reduce(np.add, [part.of_keys(keys) for part in parts]))


def _all_keys(parts: Sequence[Sums]) -> I64:
    return np.unique(np.concatenate([part.keys for part in parts]))
