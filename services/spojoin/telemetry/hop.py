"""What the hops of a frame's way are, and the times that a hop took lately."""

from __future__ import annotations

from typing import NamedTuple

from spojoin.protocol.topology import Hop

#: Hops that follow each other without overlap; the others overlap them, in several services at once.
IN_TURN = (Hop.ARRIVAL, Hop.FRAMING, Hop.WRITING, Hop.EVALUATION, Hop.ASSEMBLY, Hop.SETTLING)

#: The events with which each hop begins and ends.
ABOUT = {
    Hop.ARRIVAL: "oldest row produced to taken by the router",
    Hop.FRAMING: "taken by the router to framed",
    Hop.WRITING: "framed to read back from the log",
    Hop.EVALUATION: "taken by the sink to its last part there, which within a process may be before",
    Hop.DELIVERY: "appended to the log to taken by a service",
    Hop.RANKING: "taken by a mutable joiner to its ranks emitted",
    Hop.COMBINING: "taken by the logical AND to the mutable part emitted",
    Hop.SEARCH: "taken by a worker to its part emitted",
    Hop.ASSEMBLY: "last part there to result emitted",
    Hop.SETTLING: "result emitted to readable",
}


class HopTime(NamedTuple):
    """A hop's recent times in milliseconds; quantiles are upper bounds; all are NaN if no frame passed."""

    mean_ms: float
    p50_ms: float
    p99_ms: float

    def text(self) -> str:
        """The text for the store; `hop_time` reads it."""
        return ",".join(f"{value:.3f}" for value in self)


def hop_time(text: str) -> HopTime:
    """The times in a text of `HopTime.text`. Raises ValueError."""
    mean_ms, p50_ms, p99_ms = map(float, text.split(","))
    return HopTime(mean_ms, p50_ms, p99_ms)
