"""Which tuples of a stream a worker holds: a subset, renumbered so that a side sees no gaps."""

from __future__ import annotations

import numpy as np

from spojoin.kernels.tail import Tail
from spojoin.published.layouts.layout import I64


class Held:
    """Indexes and seqs of the tuples held, by local number: the k-th tuple that the worker ever stored has number k.

    has_seqs: whether seqs are needed at all
    """

    def __init__(self, has_seqs: bool) -> None:
        self._indexes = Tail()
        self._seqs = Tail() if has_seqs else None

    def append(self, indexes: I64, seqs: I64) -> None:
        """Store tuples, int64 (n,) each, ascending and after all others."""
        self._indexes.append(indexes)
        if self._seqs is not None:
            self._seqs.append(seqs)

    @property
    def end(self) -> int:
        """One past the last local number."""
        return self._indexes.end

    def local(self, bounds: I64) -> I64:
        """How many tuples below each index of the stream, int64 (m,), were ever stored: a bound in a side's numbers.

        Indexes below the dropped ones map to the first number held.
        """
        held = self._indexes.view(self._indexes.first, self._indexes.end)
        return self._indexes.first + np.searchsorted(held, bounds).astype(np.int64)

    def seqs(self, numbers: I64) -> I64:
        """Seqs of tuples by local number, int64 (k,)."""
        assert self._seqs is not None, "no seqs are kept"
        return self._seqs.view(self._seqs.first, self._seqs.end)[numbers - self._seqs.first]

    def drop_below(self, number: int) -> None:
        """Forget tuples of smaller local numbers."""
        self._indexes.drop_below(number)
        if self._seqs is not None:
            self._seqs.drop_below(number)

    @property
    def nbytes(self) -> int:
        """Bytes of what is held."""
        return 8 * (len(self._indexes) + (0 if self._seqs is None else len(self._seqs)))
