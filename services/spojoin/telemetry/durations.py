"""Spans of time in words."""

from __future__ import annotations

import math


def duration(seconds: float) -> str:
    """A time span in words; the longer, the less precise: `45 s`, `12 min`."""
    for unit, size, most in (("s", 1, 90), ("min", 60, 5_400), ("h", 3_600, 172_800)):
        if seconds < most:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def milliseconds(ms: float | None) -> str:
    """A latency in words; `-` if it is not known."""
    if ms is None or math.isnan(ms):
        return "-"
    return f"{ms:,.0f} ms" if ms < 10_000 else f"{ms / 1000:,.1f} s"


def precise_milliseconds(ms: float) -> str:
    """A short time in words, with a tenth below ten milliseconds: `0.4 ms`."""
    return f"{ms:.1f} ms" if ms < 9.95 else milliseconds(ms)


def bar(share: float, width: int) -> str:
    """A bar of at most `width` blocks for a share; at least one block if the share isn't 0."""
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
