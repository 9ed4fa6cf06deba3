"""Counts ('10K') and durations ('5 min') as people write them, as exact integers."""

from __future__ import annotations

import re
from fractions import Fraction

DURATION_EXPECTED = "a duration such as '250 ms', '5 s', '1 min', '2 hours' or '1 day'"

_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-zµ]*)\s*", re.ASCII)
_COUNT_UNITS = {"": 1, "k": 1_000, "K": 1_000, "M": 1_000_000}
_MICROSECONDS = {
    1: "us µs usec microsecond microseconds",
    1_000: "ms msec millisecond milliseconds",
    1_000_000: "s sec secs second seconds",
    60_000_000: "min mins minute minutes",
    3_600_000_000: "h hr hour hours",
    86_400_000_000: "d day days",
    604_800_000_000: "week weeks",
}
_DURATION_UNITS = {word: size for size, words in _MICROSECONDS.items() for word in words.split()}


def parse_count(text: str) -> int | None:
    """The number of tuples that `text` names, or None if it isn't an integer."""
    return _whole(text, _COUNT_UNITS)


def parse_duration_us(text: str) -> int | None:
    """The microseconds that `text` names, or None if it isn't a duration of whole microseconds."""
    return _whole(text.lower(), _DURATION_UNITS)


def parse_lateness_us(text: str) -> int | None:
    """Like `parse_duration_us`, but zero needs no unit."""
    return 0 if text.strip() == "0" else parse_duration_us(text)


def _whole(text: str, units: dict[str, int]) -> int | None:
    match = _NUMBER.fullmatch(text)
    if match is None or match[2] not in units:
        return None
    amount = Fraction(match[1]) * units[match[2]]
    return int(amount) if amount.denominator == 1 else None
