"""Spans of time in words."""

from __future__ import annotations

import math


def duration(seconds: float) -> str:
    """A time span, coarser as it grows: `45 s`, `12 min`."""
    for unit, size, most in (("s", 1, 90), ("min", 60, 5_400), ("h", 3_600, 172_800)):
        if seconds < most:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def milliseconds(ms: float | None) -> str:
    """A latency; `-` where it is not known."""
    if ms is None or math.isnan(ms):
        return "-"
    return f"{ms:,.0f} ms" if ms < 10_000 else f"{ms / 1000:,.1f} s"


def precise_milliseconds(ms: float) -> str:
    """A short time, with a tenth where it is below ten: `0.4 ms`."""
    return f"{ms:.1f} ms" if ms < 9.95 else milliseconds(ms)


def bar(share: float, width: int) -> str:
    """A share of `width` blocks, at least one where it isn't 0."""
    return "█" * max(round(share * width), share > 0)


def open_text(rows: int, ms: float) -> str:
    """Open rows in words."""
    waits = f", the oldest for {duration(ms / 1000)}" if rows else ""
    return f"open rows: {rows:,}{waits}"


def unanswered_text(ms: float | None) -> str:
    """The age of the oldest unanswered row in words."""
    if ms is None:
        return "not known"
    return milliseconds(ms) if ms else "none"
