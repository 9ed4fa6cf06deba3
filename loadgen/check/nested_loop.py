"""The join by definition: every probe against every tuple of its window, compared directly, in NumPy.

A tuple t joins every earlier tuple u of the opposite stream (self join: of the same) that lies in t's window and
satisfies all predicates; a NULL satisfies none. A tuple may belong to both streams. With c tuples of that stream before
t, length L and slide s, the window of a count query holds the indexes [ceil(c / s) * s - L, c); the window of a time
query holds those of the c tuples whose time is at least ceil(ts(t) / s) * s - L. If the right side is a table, the
window of a left tuple holds the current version, and right tuples search nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadgen.window import window_begin
from spojoin.arrays import I64, Flags
from spojoin.model import Domain, Op, Predicate, Query

#: Probes and stored tuples compared at once: masks fit the second-level cache, and Python's overhead is small.
PROBES = 16
STORED = 16_384

_COMPARE: dict[Op, Callable[..., Any]] = {
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.GT: np.greater,
    Op.GE: np.greater_equal,
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
    Op.BAND_LT: np.less,
    Op.BAND_LE: np.less_equal,
}


@dataclass(frozen=True, slots=True)
class Tuples:
    """The n tuples of all streams in the total order.

    stream: int8 (n,), each tuple's input; values: by stream, one array of that stream's length per key column
    times_us: int64 (n,) or None
    nulls: like values, bool, whether a value is NULL; empty if none is
    members: by stream, bool (n,), whether a tuple belongs to it; empty if each input feeds one stream
    windows: for a table as the right side, by left tuple the first and end index of the right tuples that it may find,
    int64 (lefts,) each; None if the query's window determines them
    """

    stream: NDArray[np.int8]
    values: tuple[tuple[NDArray[Any], ...], ...]
    times_us: I64 | None
    nulls: tuple[tuple[Flags, ...], ...] = ()
    members: tuple[Flags, ...] = ()
    windows: tuple[I64, I64] | None = None

    def __len__(self) -> int:
        return len(self.stream)

    def seqs(self, stream: int) -> I64:
        """The seqs of a stream's tuples, ascending."""
        return np.flatnonzero(self.members[stream] if self.members else self.stream == stream)


class ProbeSide(NamedTuple):
    """One direction: tuples of stream `probe` search stream `target`, as the left or the right side of pairs."""

    name: str
    probe: int
    target: int


class ProbesMask(NamedTuple):
    """Partners found: mask[i, j] says whether probe i of the block joins stored tuple `first + j`."""

    first: int
    mask: Flags


def directions(query: Query) -> tuple[ProbeSide, ProbeSide]:
    """A self join evaluates each tuple on both sides; a cross join each stream on its own."""
    right = len(query.streams) - 1
    return ProbeSide("as_left", 0, right), ProbeSide("as_right", right, 0)


class NestedLoop:
    """The join of `tuples`; each call computes its result anew."""

    def __init__(self, query: Query, tuples: Tuples) -> None:
        self._query = query
        self._buffers = np.empty((2, PROBES * STORED), np.bool_)
        self._sides = [_sides(p, tuples) for p in query.predicates]
        self._complete = _complete(query, tuples)
        self.seqs = [tuples.seqs(stream) for stream in range(len(query.streams))]
        self.role_windows = [self._windows(direction, tuples) for direction in directions(query)]

    def _windows(self, direction: ProbeSide, tuples: Tuples) -> tuple[I64, I64]:
        """For each probe of the direction, the first and end index of its window in the target stream."""
        probes, target = self.seqs[direction.probe], self.seqs[direction.target]
        if tuples.windows is not None:
            nothing = np.zeros(len(probes), np.int64)
            return tuples.windows if direction.probe == 0 else (nothing, nothing)
        before = np.searchsorted(target, probes, "left")
        window = self._query.window_over(direction.target)
        if not window.needs_time:
            return np.maximum(window_begin(before, window.length, window.slide), 0), before
        assert tuples.times_us is not None, "a time window needs times"
        bounds = window_begin(tuples.times_us[probes], window.length, window.slide)
        # Time queries are in event-time order, so the target's times ascend.
        return np.minimum(np.searchsorted(tuples.times_us[target], bounds, "left"), before), before

    def counts(self, number: int, probes: I64) -> I64:
        """Partners of the given probes (indexes of the direction's stream, ascending): int64 (m,)."""
        found = np.zeros(len(probes), np.int64)
        for begin, chunk in self._chunks(number, probes):
            for block in self._blocks(number, chunk):
                found[begin : begin + len(chunk)] += [np.count_nonzero(row) for row in block.mask]
        return found

    def pairs(self, number: int, probes: I64) -> tuple[I64, I64]:
        """(probe seqs, partner seqs) of all pairs of the given probes, sorted by both."""
        direction = directions(self._query)[number]
        found = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        for _, chunk in self._chunks(number, probes):
            for block in self._blocks(number, chunk):
                i, j = np.nonzero(block.mask)
                found.append((self.seqs[direction.probe][chunk[i]], self.seqs[direction.target][block.first + j]))
        left, right = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.lexsort((right, left))
        return left[order], right[order]

    def _chunks(self, number: int, probes: I64) -> Iterator[tuple[int, I64]]:
        """Runs of consecutive probes whose windows overlap so much that one pass over their union wastes little."""
        lower, upper = self.role_windows[number]
        begin = 0
        while begin < len(probes):
            size = PROBES
            while size > 1 and _is_wasteful(lower[probes[begin : begin + size]], upper[probes[begin : begin + size]]):
                size //= 2
            yield begin, probes[begin : begin + size]
            begin += size

    def _blocks(self, number: int, probes: I64) -> Iterator[ProbesMask]:
        """Masks over the union of the probes' windows, STORED tuples at a time; a mask is valid until the next."""
        lower, upper = (bound[probes] for bound in self.role_windows[number])
        for begin in range(int(lower.min()), int(upper.max()), STORED):
            end = min(begin + STORED, int(upper.max()))
            mask = self._satisfied(number, probes, slice(begin, end))
            if begin < lower.max() or end > upper.min():
                index = np.arange(begin, end)
                mask &= (index >= lower[:, None]) & (index < upper[:, None])
            yield ProbesMask(begin, mask)

    def _satisfied(self, number: int, probes: I64, stored: slice) -> Flags:
        """Whether probes (rows) and stored tuples (columns) satisfy all predicates."""
        shape = len(probes), stored.stop - stored.start
        # Fresh arrays of this size would cost more in page faults than the comparisons do.
        result, one = (buffer[: shape[0] * shape[1]].reshape(shape) for buffer in self._buffers)
        for k, (predicate, (left, right)) in enumerate(zip(self._query.predicates, self._sides, strict=True)):
            out = one if k else result
            if number == 0:
                _holds(predicate, left[probes][:, None], right[stored][None, :], out)
            else:
                _holds(predicate, left[stored][None, :], right[probes][:, None], out)
            if k:
                np.logical_and(result, one, out=result)
        if self._complete is not None:
            own, found = self._complete[number], self._complete[1 - number]
            result &= own[probes][:, None] & found[stored][None, :]
        return result


def _complete(query: Query, tuples: Tuples) -> tuple[Flags, Flags] | None:
    """Whether tuples have a value in every predicate's left column, and in every right column; None if all have."""
    if not any(nulls.any() for columns in tuples.nulls for nulls in columns):
        return None
    left, right = tuples.nulls[0], tuples.nulls[-1]
    return (
        ~np.logical_or.reduce([left[p.left_slot] for p in query.predicates]),
        ~np.logical_or.reduce([right[p.right_slot] for p in query.predicates]),
    )


def _sides(predicate: Predicate, tuples: Tuples) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both sides' values, in the narrowest form that gives the same comparisons."""
    left = tuples.values[0][predicate.left_slot]
    right = tuples.values[-1][predicate.right_slot]
    if not predicate.op.is_band:
        return _ranked(left, right)
    if predicate.domain is Domain.INTEGER and not (_is_small(left) and _is_small(right)):
        # The difference of 64-bit integers could overflow; Python's integers can't.
        return left.astype(object), right.astype(object)
    return left, right


def _ranked(left: NDArray[Any], right: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Each value's rank among the distinct values of both sides: the same order in fewer bytes, which is faster."""
    distinct, ranks = np.unique(np.concatenate([left, right]), return_inverse=True)
    ranks = ranks.astype(np.min_scalar_type(len(distinct)))
    return ranks[: len(left)], ranks[len(left) :]


def _is_small(values: NDArray[Any]) -> bool:
    return len(values) == 0 or (int(values.min()) > -(2**62) and int(values.max()) < 2**62)


def _holds(predicate: Predicate, left: NDArray[Any], right: NDArray[Any], out: Flags) -> None:
    """Evaluate a predicate on broadcast values into `out`."""
    compare = _COMPARE[predicate.op]
    if not predicate.op.is_band:
        compare(left, right, out=out)
        return
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.subtract(left, right)
        compare(np.abs(distance, out=distance), predicate.width, out=out)


def _is_wasteful(lower: I64, upper: I64) -> bool:
    return int(upper.max() - lower.min()) > 2 * int((upper - lower).max()) + PROBES
