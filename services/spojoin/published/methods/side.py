"""The interface of a method: the window of one stream, searched by the probes of its directions.

Every method sees the same plain numbers. A predicate of a direction is a test on one stored column: the stored code
lies in [lo, hi] of the probe, or, where the test is negated (`!=`), outside. A probe finds a stored tuple iff all tests
of the direction hold and the tuple's index lies in [lower, upper): its window, up to the tuples that came before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spojoin.model import OptionValue

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Check:
    """A predicate as a method sees it.

    column: which stored column; negated: it holds outside of [lo, hi]; equality: lo is hi, or nothing matches
    text: the predicate as the query has it, for messages
    """

    column: int
    negated: bool
    equality: bool
    text: str = ""


@dataclass(frozen=True, slots=True)
class SideSpec:
    """What a method must store and search.

    columns: stored columns; directions: the tests of each direction that searches this stream, at most two, with the
        same probes
    length, slide: of a count window, in tuples of this stream, or of a time window, in microseconds
    lists: whether to list partners or only count them; options: the method's own, complete
    """

    columns: int
    directions: tuple[tuple[Check, ...], ...]
    is_time: bool
    length: int
    slide: int
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
    """Where each probe's partners begin and end in a list of all: int64 (m + 1,) from counts int64 (m,)."""
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


def summed(counters: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Counters of several, added up by name."""
    found: dict[str, float] = {}
    for each in counters:
        for name, value in each.items():
            found[name] = found.get(name, 0) + value
    return found


class Side(ABC):
    """One stream's window. Indexes count the stream's tuples from 0; those given to `take` follow one another."""

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
        """Bytes of all that is held."""

    @property
    @abstractmethod
    def tuples(self) -> int:
        """Tuples held, including those behind the window that share a structure with others."""
