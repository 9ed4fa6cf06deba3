"""The time that a figure may take, and its progress as lines of text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from loadgen.papers.model import Figure, LeftOut

T = TypeVar("T")

#: The share of a point's time that is measured; the rest fills windows.
MEASURED_SHARE = 0.5
#: Measuring a point for longer adds nothing.
POINT_S_MAX = 3.0
POINT_S_MIN = 0.02
#: No point begins after the figure's time multiplied by this: filling a window can't be interrupted.
OVERTIME = 1.25
#: The reason for the points that never began.
NO_TIME = "for lack of time"


class FigureRun:
    """One figure's run. seconds: its time; is_quick: small sizes; say: takes lines for people."""

    def __init__(
        self,
        seconds: float,
        *,
        is_quick: bool,
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_quick = is_quick
        self.left_out: list[LeftOut] = []
        self.say = say
        self._clock = clock
        self._seconds = seconds
        self._began = clock()
        self._planned = 1
        self._done = 0

    def pick(self, full: T, quick: T) -> T:
        """The size for a full or for a quick run."""
        return quick if self.is_quick else full

    def plan(self, points: int) -> None:
        """Announce how many points the figure has in all, where it calls `each` more than once."""
        self._planned, self._done = points, 0

    def each(self, points: Iterable[T]) -> Iterator[T]:
        """The points, while there is time: always the first; those left out are recorded."""
        wanted = list(points)
        self._planned = max(self._planned, self._done + len(wanted))
        for i, point in enumerate(wanted):
            if self._done and self._clock() - self._began > OVERTIME * self._seconds:
                self.left_out += [LeftOut(_named(each), NO_TIME) for each in wanted[i:]]
                return
            yield point
            self._done += 1

    @property
    def point_s(self) -> float:
        """Seconds to measure the current point."""
        left = self._seconds - (self._clock() - self._began)
        share = MEASURED_SHARE * left / max(self._planned - self._done, 1)
        return min(max(share, POINT_S_MIN), POINT_S_MAX)


@dataclass(frozen=True, slots=True)
class Entry:
    """A figure that can be measured. seconds: its share of a full run's time."""

    name: str
    seconds: float
    draw: Callable[[FigureRun], Figure]


def _named(point: object) -> str:
    return ", ".join(map(str, point)) if isinstance(point, tuple) else str(point)
