"""By what tuples are chosen: codes, and kinds for what no code stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spojoin.arrays import I8, I64

#: Kinds: before all codes, ordered by its code, behind all, and in no order.
FIRST, CODED, LAST, NEVER = -1, 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Ratings:
    """What k choices say of n tuples: smaller kinds come first, and of one kind smaller codes.

    codes: int64 (k, n), 0 unless the kind is CODED; kinds: int8 (k, n)
    """

    codes: I64
    kinds: I8

    def __len__(self) -> int:
        return int(self.codes.shape[1])

    def __getitem__(self, chosen: slice) -> Ratings:
        """Those of some tuples."""
        return Ratings(self.codes[:, chosen], self.kinds[:, chosen])

    def of(self, choice: int) -> tuple[I64, I8]:
        """The codes and kinds of a choice."""
        return self.codes[choice], self.kinds[choice]

    def copy(self) -> Ratings:
        """The same in memory of its own."""
        return Ratings(self.codes.copy(), self.kinds.copy())

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return self.codes.nbytes + self.kinds.nbytes


def no_ratings(n: int) -> Ratings:
    """Those of no choice."""
    return Ratings(np.empty((0, n), np.int64), np.empty((0, n), np.int8))


def all_ratings(parts: Sequence[Ratings]) -> Ratings:
    """Those of several runs of tuples, one behind the other."""
    codes, kinds = [part.codes for part in parts], [part.kinds for part in parts]
    return Ratings(np.concatenate(codes, axis=1), np.concatenate(kinds, axis=1))
