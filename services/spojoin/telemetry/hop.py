"""The hops of a frame's way, and what one took lately."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Hop(enum.StrEnum):
    """A step of a frame's way, in the data's way; behind evaluation what happens meanwhile, service by service."""

    ARRIVAL = "arrival"
    FRAMING = "framing"
    WRITING = "writing"
    EVALUATION = "evaluation"
    DELIVERY = "delivery"
    RANKING = "ranking"
    COMBINING = "combining"
    SEARCH = "search"
    ASSEMBLY = "assembly"
    SETTLING = "settling"


#: Hops that follow each other without overlap; the others happen meanwhile, in several services at once.
IN_TURN = (Hop.ARRIVAL, Hop.FRAMING, Hop.WRITING, Hop.EVALUATION, Hop.ASSEMBLY, Hop.SETTLING)

#: What each begins and ends with.
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
    """What a hop took lately, in milliseconds; the quantiles are upper bounds, all are NaN where no frame passed."""

    mean_ms: float
    p50_ms: float
    p99_ms: float

    def text(self) -> str:
        """As the store holds it; `hop_time` reads it."""
        return ",".join(f"{value:.3f}" for value in self)


def hop_time(text: str) -> HopTime:
    """What `HopTime.text` has written. Raises ValueError."""
    mean_ms, p50_ms, p99_ms = map(float, text.split(","))
    return HopTime(mean_ms, p50_ms, p99_ms)
