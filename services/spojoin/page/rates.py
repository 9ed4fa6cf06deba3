"""Rates of counters that are read repeatedly."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

#: a rate is taken over the latest readings, about one a second
READINGS = 6


class Rates:
    """Readings of counters by name; no more are kept than a rate needs."""

    def __init__(self) -> None:
        self._readings: dict[Hashable, deque[tuple[float, float]]] = {}

    def note(self, name: Hashable, at_ms: float, value: float) -> None:
        """A counter's value at a time of its own clock; one that has fallen was restarted."""
        readings = self._readings.setdefault(name, deque(maxlen=READINGS))
        if readings and value < readings[-1][1]:
            readings.clear()
        if not readings or at_ms > readings[-1][0]:
            readings.append((at_ms, value))

    def per_s(self, name: Hashable) -> float | None:
        """The mean increase a second over the latest readings; None before the second one."""
        readings = self._readings.get(name)
        if readings is None or len(readings) < 2:
            return None
        (first_ms, first), (last_ms, last) = readings[0], readings[-1]
        return 1000 * (last - first) / (last_ms - first_ms)

    def all_per_s(self) -> dict[Hashable, float]:
        """The rates of all counters that have one."""
        return {name: rate for name in self._readings if (rate := self.per_s(name)) is not None}

    def keep(self, names: Iterable[Hashable]) -> None:
        """Forget all other counters."""
        kept = set(names)
        self._readings = {name: readings for name, readings in self._readings.items() if name in kept}
