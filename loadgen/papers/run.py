"""The time that a figure may take, and what is told meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from loadgen.papers.model import LeftOut

T = TypeVar("T")

#: Of a point's time, what is measured; the rest fills windows.
MEASURED_SHARE = 0.5
#: A point is measured for so long at most: longer tells no more.
POINT_S_MAX = 3.0
POINT_S_MIN = 0.02
#: Points begin while a figure has not taken so many times its share: filling a window can't be cut short.
OVERTIME = 1.25
#: Why the points behind those are left out.
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
        """One of two sizes."""
        return quick if self.is_quick else full

    def plan(self, points: int) -> None:
        """Say how many points come in all, where `each` is called more than once."""
        self._planned, self._done = points, 0

    def each(self, points: Iterable[T]) -> Iterator[T]:
        """The points, as long as there is time; the first always comes, what is left out is noted."""
        asked = list(points)
        self._planned = max(self._planned, self._done + len(asked))
        for i, point in enumerate(asked):
            if self._done and self._clock() - self._began > OVERTIME * self._seconds:
                self.left_out += [LeftOut(_named(each), NO_TIME) for each in asked[i:]]
                return
            yield point
            self._done += 1

    @property
    def point_s(self) -> float:
        """Seconds to measure the current point."""
        left = self._seconds - (self._clock() - self._began)
        share = MEASURED_SHARE * left / max(self._planned - self._done, 1)
        return min(max(share, POINT_S_MIN), POINT_S_MAX)


def _named(point: object) -> str:
    return ", ".join(map(str, point)) if isinstance(point, tuple) else str(point)
