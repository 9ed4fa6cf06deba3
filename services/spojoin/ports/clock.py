"""The system's clock."""

from __future__ import annotations

import time


class SystemClock:
    """Real time."""

    def monotonic_ms(self) -> float:
        """Milliseconds since boot."""
        return time.monotonic_ns() / 1e6

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
