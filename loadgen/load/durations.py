"""Durations as people write them."""

from __future__ import annotations

import re

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float | None:
    """Seconds of "90", "90s", "5m" or "1.5h"; None for "forever". Raises ValueError."""
    if text == "forever":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if found is None or float(found[1]) <= 0:
        raise ValueError("expected a duration such as 90s, 5m, 1.5h or forever")
    return float(found[1]) * _UNITS[found[2]]


def ending(text: str) -> float:
    """Seconds of a duration that ends. Raises ValueError."""
    found = seconds(text)
    if found is None:
        raise ValueError("expected a duration that ends, such as 90s, 5m or 1.5h")
    return found
