"""The checks of all directions in a row, as kernels take them, and the arrays for what kernels find."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spojoin.published.methods.side import I64, Found, Searches, SideSpec, offsets_of

#: Room for a chunk's partners before the number of its matches is known.
PARTNERS = 1_024


class FlatChecks:
    """T checks of R directions. starts int64 (R + 1,): each one's checks; columns int64 (T,); negated bool (T,)."""

    __slots__ = ("columns", "most", "negated", "starts")

    def __init__(self, spec: SideSpec) -> None:
        every = [check for direction in spec.directions for check in direction]
        sizes = [len(direction) for direction in spec.directions]
        self.starts = offsets_of(np.array(sizes, np.int64))
        self.columns = np.array([check.column for check in every], np.int64)
        self.negated = np.array([check.negated for check in every], np.bool_)
        #: the largest number of checks in a direction
        self.most = max(sizes)

    @property
    def directions(self) -> int:
        """The number of directions, R."""
        return len(self.starts) - 1

    @property
    def arrays(self) -> tuple[I64, I64, NDArray[np.bool_]]:
        """starts, columns, negated."""
        return self.starts, self.columns, self.negated


def flat(directions: Sequence[Searches]) -> tuple[I64, I64]:
    """The lower and upper bounds of all directions, each int64 (T, m)."""
    return np.concatenate([direction.lo for direction in directions]), np.concatenate(
        [direction.hi for direction in directions]
    )


class Hits:
    """What a kernel finds for m probes: counts int64 (R, m), partners int64 (R, room), used int64 (R,) of the room.

    A kernel stops before a probe that might need more room than is left, and is called again after `grow`. Without
    lists there are no partners.
    """

    def __init__(self, directions: int, probes: int, lists: bool) -> None:
        self.counts = np.zeros((directions, probes), np.int64)
        self.partners = np.empty((directions, PARTNERS if lists else 0), np.int64)
        self.used = np.zeros(directions, np.int64)
        self._lists = lists

    def grow(self, needed: int) -> None:
        """Make room for `needed` more partners in every direction, at least doubling the room."""
        room = self.partners.shape[1] + max(self.partners.shape[1], needed)
        wider = np.empty((len(self.partners), room), np.int64)
        wider[:, : self.partners.shape[1]] = self.partners
        self.partners = wider

    def found(self, ascending: bool) -> list[Found]:
        """One Found per direction; sorts each probe's partners unless they are `ascending` already."""
        if not self._lists:
            return [Found(counts) for counts in self.counts]
        return [self._listed(direction, ascending) for direction in range(len(self.counts))]

    def _listed(self, direction: int, ascending: bool) -> Found:
        counts, partners = self.counts[direction], self.partners[direction, : self.used[direction]].copy()
        if not ascending and len(partners):
            _sort(partners, counts)
        return Found(counts, offsets_of(counts), partners)


def _sort(partners: I64, counts: I64) -> None:
    """Put each probe's partners in ascending order, in place: one sort by probe and partner together."""
    least = int(partners.min())
    block = np.repeat(np.arange(len(counts), dtype=np.int64) * (int(partners.max()) - least + 1), counts)
    partners += block - least
    partners.sort()
    partners -= block - least


def by_role(counts: I64, partners: I64, is_listed: bool) -> list[Found]:
    """One Found per direction, from counts int64 (m, directions) and partners by probe and direction."""
    if not is_listed:
        return [Found(column.copy()) for column in counts.T]
    direction = np.repeat(np.arange(counts.size) % counts.shape[1], counts.ravel())
    return [
        Found(column.copy(), offsets_of(column), partners[direction == number])
        for number, column in enumerate(counts.T)
    ]


def joined(parts: Sequence[Sequence[Found]]) -> list[Found]:
    """The union of what was found in parts of a window, in order of arrival; each part has one Found per direction."""
    return [_joined([part[direction] for part in parts]) for direction in range(len(parts[0]))]


def _joined(parts: Sequence[Found]) -> Found:
    counts: I64 = np.stack([part.counts for part in parts]).sum(axis=0)
    if parts[0].partners is None:
        return Found(counts)
    offsets = offsets_of(counts)
    partners = np.empty(int(offsets[-1]), np.int64)
    cursors = offsets[:-1].copy()
    for part in parts:
        if part.partners is not None and part.offsets is not None:
            places = np.arange(len(part.partners)) + np.repeat(cursors - part.offsets[:-1], part.counts)
            partners[places] = part.partners
            cursors += part.counts
    return Found(counts, offsets, partners)
