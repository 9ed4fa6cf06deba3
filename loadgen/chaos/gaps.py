"""How long results are silent around a fault: plain arithmetic over the moments at which they came."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from loadgen.chaos.listener import Arrival

F64 = NDArray[np.float64]


def longest_gap_ms(arrivals: Sequence[Arrival], begin_s: float, end_s: float) -> float:
    """The longest time between a result and the next, of those that end after `begin_s` and begin before `end_s`.

    What began before `begin_s` counts from its beginning, so that a fault which strikes within a gap is charged with
    all of it. Where nothing came after `begin_s`, the gap lasts until `end_s`.
    """
    first = max(bisect_left(arrivals, begin_s, key=attrgetter("at_s")) - 1, 0)
    last = bisect_right(arrivals, end_s, key=attrgetter("at_s"))
    moments = [arrival.at_s for arrival in arrivals[first : last + 1]]
    if not moments or moments[-1] < begin_s:
        moments.append(end_s)
    return 1000 * float(np.diff(np.array(moments)).max(initial=0.0))


def gaps_ms(arrivals: Sequence[Arrival], begin_s: float, end_s: float) -> F64:
    """All times between a result and the next within [begin_s, end_s], milliseconds, float64 (n,)."""
    moments = np.array([arrival.at_s for arrival in arrivals if begin_s <= arrival.at_s <= end_s])
    return 1000 * np.diff(moments)


def answered_at_s(arrivals: Sequence[Arrival], tuples: int) -> float | None:
    """When this many tuples were answered; None while they aren't."""
    at = bisect_left(arrivals, tuples, key=attrgetter("tuples"))
    return arrivals[at].at_s if at < len(arrivals) else None


def percentile(values: Sequence[float] | F64, percent: float) -> float:
    """The least of the values that this share of them doesn't exceed: with fewer than 100 values p99 is the largest."""
    return float(np.percentile(np.asarray(values, np.float64), percent, method="inverted_cdf"))
