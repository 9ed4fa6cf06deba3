"""How an index works: what runs its pieces, and what it spends on its own structures besides answering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from spojoin.kernels.pieces import IN_TURN, TaskRunner

#: A monotonic clock in seconds. An index has no clock: a caller that wants times passes a timer.
Timer = Callable[[], float]


def untimed() -> float:
    """The timer for callers that want no times; it always returns 0."""
    return 0.0


@dataclass(slots=True)
class Work:
    """Counts and durations, which influence no decision.

    merges: nodes made from others, by merging or splitting; builds: search structures made for a node on first use
    runner: runs the pieces of a search, by default in turn; all pieces may call `built` at once
    """

    timer: Timer = field(default=untimed, repr=False, compare=False)
    runner: TaskRunner = field(default=IN_TURN, repr=False, compare=False)
    merges: int = 0
    merge_seconds: float = 0.0
    builds: int = 0
    build_seconds: float = 0.0
    _lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def merged(self, began_s: float) -> None:
        """Count nodes made from others, which took the time since `began_s`."""
        self.merges += 1
        self.merge_seconds += self.timer() - began_s

    def built(self, began_s: float) -> None:
        """Count a built structure, which took the time since `began_s`."""
        with self._lock:
            self.builds += 1
            self.build_seconds += self.timer() - began_s

    def counters(self) -> dict[str, float]:
        """All numbers by name."""
        return {
            "merges": self.merges,
            "merge_seconds": self.merge_seconds,
            "builds": self.builds,
            "build_seconds": self.build_seconds,
        }
