"""How much matches, measured naively on a small sample of recent tuples."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from spojoin.kernels.codes import unfold_doubles
from spojoin.model import Domain, Op, Predicate, Query
from spojoin.wire.records import I64, Frame, StreamSlice

#: Tuples remembered of each stream, and taken of each frame at most: 256 x 256 pairs take about a millisecond.
SAMPLE_TUPLES = 256
TUPLES_A_FRAME = 16

Mask = NDArray[np.bool_]

_COMPARE: dict[Op, Callable[[I64, I64], Mask]] = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
}


class Sample:
    """The latest sampled tuples of each stream, evenly spaced within frames: the same log gives the same sample."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._codes = [np.zeros((len(stream.keys), 0), np.int64) for stream in query.streams]

    def take(self, frame: Frame) -> None:
        """Remember some of a frame's tuples in place of the oldest."""
        for stream, piece in enumerate(frame.slices):
            if len(piece):
                kept = np.concatenate([self._codes[stream], _some(piece)], axis=1)
                self._codes[stream] = kept[:, -SAMPLE_TUPLES:]

    def selectivities(self) -> list[float]:
        """For each predicate the share of pairs that satisfy it; NaN where too little is known."""
        left, right = self._codes[0], self._codes[-1]
        pairs = left.shape[1] * right.shape[1] - (left.shape[1] if self._query.is_self else 0)
        if pairs <= 0:
            return [float("nan")] * len(self._query.predicates)
        return [self._satisfying(predicate, left, right) / pairs for predicate in self._query.predicates]

    def _satisfying(self, predicate: Predicate, left: I64, right: I64) -> int:
        mask = _satisfied(predicate, left, right)
        if self._query.is_self:
            np.fill_diagonal(mask, False)
        return int(np.count_nonzero(mask))


def _some(piece: StreamSlice) -> I64:
    at = np.linspace(0, len(piece) - 1, min(len(piece), TUPLES_A_FRAME)).astype(np.int64)
    return np.stack([codes[at] for codes in piece.codes])


def _satisfied(predicate: Predicate, left: I64, right: I64) -> Mask:
    """Mask (n left, m right) of pairs for which the predicate holds."""
    a, b = left[predicate.left_slot][:, None], right[predicate.right_slot][None, :]
    if predicate.op in _COMPARE:
        return np.asarray(_COMPARE[predicate.op](a, b), np.bool_)
    return _in_band(predicate, a, b)


def _in_band(predicate: Predicate, a: I64, b: I64) -> Mask:
    # An estimate may go through doubles even where results must not.
    left, right = (
        unfold_doubles(codes) if predicate.domain is Domain.FLOAT else codes.astype(np.float64) for codes in (a, b)
    )
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(left - right)
    within = distance < predicate.width if predicate.op is Op.BAND_LT else distance <= predicate.width
    return np.asarray(within, np.bool_)
