"""Durations as people write them."""

from __future__ import annotations

import re

from spojoin.errors import ConfigurationError

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float | None:
    """Seconds of "90", "90s", "5m" or "1.5h"; None for "forever". Raises ConfigurationError."""
    if text == "forever":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if found is None or float(found[1]) <= 0:
        raise ConfigurationError(f"{text!r} is no duration: write 90s, 5m, 1.5h or forever")
    return float(found[1]) * _UNITS[found[2]]
