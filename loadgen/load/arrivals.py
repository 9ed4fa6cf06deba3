"""When each row of a load is due: a schedule that is fixed beforehand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Rows at `rate` a second on average, all of them within the first `on_share` of each period of `period_s`."""

    rate: float
    on_share: float = 1.0
    period_s: float = 2.0

    def __post_init__(self) -> None:
        if not (self.rate > 0 and self.period_s > 0 and 0 < self.on_share <= 1):
            raise ValueError(f"{self}: a rate and a period are above 0, a share is above 0 and at most 1")

    @property
    def peak(self) -> float:
        """Rows a second while any come."""
        return self.rate / self.on_share

    def due_s(self, row: int) -> float:
        """Seconds from the start to the moment at which row number `row` is due."""
        period, within = divmod(row / self.rate, self.period_s)
        return period * self.period_s + within * self.on_share

    def rows_due(self, seconds: float) -> float:
        """How many rows are due `seconds` after the start."""
        period, within = divmod(max(0.0, seconds), self.period_s)
        return self.rate * (period * self.period_s + min(within / self.on_share, self.period_s))
