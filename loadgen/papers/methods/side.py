"""The interface of a method: the window of one stream, searched by the probes of its directions.

Every method sees the same plain numbers. A predicate of a direction is a test on one stored column: the stored code
lies in [lo, hi] of the probe, or outside if the test is negated (`!=`). A probe finds a stored tuple iff all tests
of the direction hold and the tuple's index lies in [lower, upper): its window, up to the tuples that came before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64
from spojoin.model import OptionValue
from spojoin.windows import Window

#: Pairs of a stored code and a probe's bound, or an inserted code, that were compared.
COMPARISONS: Final = 0
#: Nodes of trees visited.
NODES: Final = 1
#: Bits set.
MARKS: Final = 2
#: Length of the array.
WORK: Final = 3


@dataclass(frozen=True, slots=True)
class Check:
    """A predicate for a method.

    column: which stored column; negated: it holds outside of [lo, hi]; equality: lo is hi, or nothing matches
    text: the predicate as the query has it, for messages
    """

    column: int
    negated: bool
    equality: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class SideSpec:
    """A method's task: the tuples to store, and the tests to search by.

    columns: stored columns; directions: the tests of each direction that searches this stream, at most two, with the
        same probes
    window: over this stream, or of one worker's share of its tuples
    lists: whether to list partners or only count them; options: the method's own, complete
    """

    columns: int
    directions: tuple[tuple[Check, ...], ...]
    window: Window
    lists: bool
    options: Mapping[str, OptionValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Searches:
    """The m probes of one direction: lo, hi int64 (tests, m)."""

    lo: I64
    hi: I64


@dataclass(frozen=True, slots=True)
class Found:
    """counts int64 (m,); with partners also offsets int64 (m + 1,) and partners, int64 indexes ascending per probe."""

    counts: I64
    offsets: I64 | None = None
    partners: I64 | None = None


def offsets_of(counts: I64) -> I64:
    """The bounds of each probe's partners in a list of all: int64 (m + 1,) from counts int64 (m,)."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


@dataclass(slots=True)
class Counters:
    """The work that a method has done.

    comparisons: pairs of a stored code and a probe's bound that were compared; nodes: nodes of trees visited
    merges: structures rebuilt or merged; merge_seconds: the time that took
    """

    comparisons: int = 0
    nodes: int = 0
    merges: int = 0
    merge_seconds: float = 0.0
    more: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, float]:
        """All numbers by name."""
        return {
            "comparisons": self.comparisons,
            "nodes_visited": self.nodes,
            "merges": self.merges,
            "merge_seconds": self.merge_seconds,
            **self.more,
        }


class Side(ABC):
    """One stream's window. Indexes count the stream's tuples from 0; `take` gets consecutive ones."""

    def __init__(self, spec: SideSpec) -> None:
        self.spec = spec
        self.counters = Counters()

    @abstractmethod
    def take(self, stored: I64, directions: Sequence[Searches], lower: I64, upper: I64) -> list[Found]:
        """Store tuples and search for probes, as if one after the other.

        stored: int64 (columns, n), the codes of the next n tuples; directions: the m probes of each direction
        lower, upper: int64 (m,), nondecreasing; probe i comes right before the stored tuple with index upper[i]: it is
        answered when all tuples below that are stored. No later probe reaches below lower[-1].
        Returns one Found per direction.
        """

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """All bytes held."""

    @property
    @abstractmethod
    def tuples(self) -> int:
        """Tuples held, including tuples behind the window that share a structure with others."""


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
    """A kernel's results for m probes: counts int64 (R, m), partners int64 (R, room), used int64 (R,) of the room.

    A kernel stops before a probe that might need more room; call it again after `grow`. Without
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
    """The union of results in parts of a window, in order of arrival; each part has one Found per direction."""
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
