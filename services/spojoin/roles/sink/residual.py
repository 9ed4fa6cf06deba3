"""Residual conditions: pairs that were listed, of which those are kept that no index could tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.segments import before, marked_each
from spojoin.model import Query
from spojoin.roles.sink.pairs import HeldColumns, SeqPairs, residual_program
from spojoin.wire.records import I64, Matches


class Residual:
    """Filters pairs by the conditions that no index answers."""

    def __init__(self, query: Query) -> None:
        self.program = residual_program(query)

    def filtered(self, matches: Matches, probes: I64, *, as_left: bool, histories: Sequence[HeldColumns]) -> Matches:
        """The matches of one direction of which the conditions are true; probes: int64 (m,), their seqs."""
        assert matches.offsets is not None, "pairs are listed to be filtered"
        assert matches.partners is not None, "pairs are listed to be filtered"
        own = np.repeat(probes, np.diff(matches.offsets))
        left, right = (own, matches.partners) if as_left else (matches.partners, own)
        return with_partners(matches, self.program.are_true(SeqPairs(left, right, histories)))


def with_partners(matches: Matches, kept: NDArray[np.bool_]) -> Matches:
    """Matches with those of their partners, which are listed, that a mask keeps."""
    assert matches.offsets is not None, "pairs are listed to be filtered"
    assert matches.partners is not None, "pairs are listed to be filtered"
    lengths = marked_each(kept, matches.offsets)
    return Matches(lengths, before(lengths), matches.partners[kept])
