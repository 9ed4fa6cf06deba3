"""How long the hops of frames take: since the start, and in the last minute."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from prometheus_client.metrics_core import HistogramMetricFamily
from prometheus_client.registry import Collector

from spojoin.arrays import I64
from spojoin.protocol.topology import Hop
from spojoin.telemetry.hop import HopTime

SPAN_MS = 60_000
#: the last minute is kept in slices of this length, each of which is forgotten as a whole
SLICE_MS = 2_000

#: upper bounds in milliseconds, up to an hour; each is about a quarter above the last, as precise as quantiles
_BOUNDS_MS = np.geomspace(0.05, 3_600_000, 82)

#: one bound in three is exposed, each about twice the one before
_EXPOSED = slice(0, None, 3)

#: how many times are kept until they are counted, about once a second
PENDING_MAX = 8_192
HOPS_NAME = "spojoin_hop_seconds"
HOPS_HELP = "Time of a hop on a frame's way from production to readable results (see the runtime's page)."


class RecentCounts:
    """Sums arrays of `size` counts, each added at a time in ms that never runs backwards, over the last minute."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._slices: deque[tuple[int, I64]] = deque()

    def add(self, counts: I64, now_ms: float) -> None:
        """Count int64 (size,) more."""
        number = int(now_ms // SLICE_MS)
        if not self._slices or self._slices[-1][0] != number:
            self._forget(now_ms)
            self._slices.append((number, np.zeros(self._size, np.int64)))
        self._slices[-1][1][:] += counts

    def total(self, now_ms: float) -> I64:
        """The counts of the last minute, int64 (size,)."""
        self._forget(now_ms)
        return sum((counts for _, counts in self._slices), np.zeros(self._size, np.int64))

    def _forget(self, now_ms: float) -> None:
        while self._slices and (self._slices[0][0] + 1) * SLICE_MS <= now_ms - SPAN_MS:
            self._slices.popleft()


class _HopCounts:
    """Counts a hop's frames by time; after the last bound's count comes the sum of the times in microseconds."""

    def __init__(self) -> None:
        self.pending: deque[float] = deque(maxlen=PENDING_MAX)
        self.total: I64 = np.zeros(len(_BOUNDS_MS) + 2, np.int64)
        self.recent = RecentCounts(len(self.total))

    def fold(self, now_ms: float) -> None:
        """Count all pending times at once."""
        if not self.pending:
            return
        times_ms = np.array(self.pending)
        self.pending.clear()
        added = np.bincount(np.searchsorted(_BOUNDS_MS, times_ms), minlength=len(self.total))
        added[-1] = int(times_ms.sum() * 1_000)
        self.recent.add(added, now_ms)
        self.total = self.total + added  # a new array: another thread may be reading the one before

    def lately(self, now_ms: float) -> HopTime:
        """The hop's times in the last minute."""
        recent = self.recent.total(now_ms)
        counts = recent[:-1]
        frames = int(counts.sum())
        if not frames:
            return HopTime(np.nan, np.nan, np.nan)
        places = np.searchsorted(np.cumsum(counts), np.array([0.50, 0.99]) * frames)
        p50_ms, p99_ms = _BOUNDS_MS[np.minimum(places, len(_BOUNDS_MS) - 1)].tolist()
        return HopTime(int(recent[-1]) / frames / 1_000, p50_ms, p99_ms)


class HopTimes(Collector):
    """The times of hops as one histogram, by the hops' names; to note a time costs no more than an append."""

    def __init__(self) -> None:
        self._counts: dict[Hop, _HopCounts] = {}

    def expect(self, hops: Iterable[Hop]) -> None:
        """Report these hops from the first frame on."""
        for hop in hops:
            self._counts.setdefault(hop, _HopCounts())

    def observe(self, hop: Hop, time_ms: float) -> None:
        """Note how long a frame took for an expected hop."""
        self._counts[hop].pending.append(time_ms)

    def lately(self, now_ms: float) -> Mapping[Hop, HopTime]:
        """Each hop in the last minute; `now_ms` never runs backwards. Counts what was observed since the last call."""
        for counts in self._counts.values():
            counts.fold(now_ms)
        return {hop: counts.lately(now_ms) for hop, counts in self._counts.items()}

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The cumulative buckets, in seconds, of what `lately` has counted."""
        bounds = [*(f"{bound / 1_000:.3g}" for bound in _BOUNDS_MS[_EXPOSED]), "+Inf"]
        family = HistogramMetricFamily(HOPS_NAME, HOPS_HELP, labels=("hop",))
        for hop, counts in list(self._counts.items()):
            total = counts.total
            sums = np.cumsum(total[:-1])
            values = [*sums[:-1][_EXPOSED].tolist(), int(sums[-1])]
            buckets = list(zip(bounds, map(float, values), strict=True))
            family.add_metric([hop.value], buckets, sum_value=int(total[-1]) / 1_000_000)
        yield family
