"""Checks numbers in timestamp columns without a declared unit, which count as milliseconds.

A recent time in seconds, read as milliseconds, is an early day of 1970; in microseconds or nanoseconds it is beyond the
year 20000. Windows over such times silently hold far too many or too few rows. So a number that is a time from 1990 to
2099 in another unit is refused until the schema names the unit. The ranges are far apart: a time of those years in
milliseconds is never in one of them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from spojoin.model import TimeUnit

#: Ticks per second. A plain `timestamp` counts milliseconds.
TICKS = {
    TimeUnit.SECONDS: 1,
    TimeUnit.MILLISECONDS: 10**3,
    TimeUnit.MICROSECONDS: 10**6,
    TimeUnit.NANOSECONDS: 10**9,
}

#: Plausible times: from 1990 to before 2100, in seconds since 1970.
_OURS_S = (631_152_000, 4_102_444_800)
_NAMES = {
    TimeUnit.SECONDS: "seconds",
    TimeUnit.MILLISECONDS: "milliseconds",
    TimeUnit.MICROSECONDS: "microseconds",
    TimeUnit.NANOSECONDS: "nanoseconds",
}
#: The ranges of numbers that are plausible times in another unit than milliseconds: first and end.
_RANGES = {
    unit: (_OURS_S[0] * ticks, _OURS_S[1] * ticks) for unit, ticks in TICKS.items() if unit is not TimeUnit.MILLISECONDS
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def in_doubt(numbers: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.bool_] | None:
    """A mask of the numbers (n,) that are plausible times in another unit than milliseconds; None if there are none."""
    if not len(numbers) or not _touches(numbers.min(), numbers.max()):
        return None
    found = np.zeros(len(numbers), np.bool_)
    for first, end in _RANGES.values():
        found |= (numbers >= first) & (numbers < end)
    return found


def _touches(least: float, most: float) -> bool:
    """Whether numbers from `least` to `most` may be in a range of `_RANGES`; quickly False for milliseconds."""
    return any(least < end and most >= first for first, end in _RANGES.values())


def is_in_doubt(number: Fraction | int) -> bool:
    """Whether one number is in doubt."""
    return _looks_like(number) is not None


def doubt_about(number: Fraction | int, name: str) -> str:
    """The moments that a doubtful number would be in either unit, and how to declare the column of this name."""
    unit = _looks_like(number) or TimeUnit.MILLISECONDS
    kind = f"timestamp({unit.value})"
    return (
        f"would be {_moment(number, unit)} in {_NAMES[unit]}, "
        f"but {_moment(number, TimeUnit.MILLISECONDS)} in milliseconds, as a plain timestamp counts: "
        f"declare the unit in the schema: `{name}: {kind}` in a query file, --schema '{name}={kind}' in `sql`, "
        f"schema={{'{name}': '{kind}'}} in Python; milliseconds are timestamp(ms)"
    )


def plausible_unit(number: Fraction | int) -> TimeUnit | None:
    """The unit in which a number is a time from 1990 to 2099; None if there is none."""
    ticks = TICKS[TimeUnit.MILLISECONDS]
    return TimeUnit.MILLISECONDS if _OURS_S[0] * ticks <= number < _OURS_S[1] * ticks else _looks_like(number)


def _looks_like(number: Fraction | int) -> TimeUnit | None:
    return next((unit for unit, (first, end) in _RANGES.items() if first <= number < end), None)


def _moment(number: Fraction | int, unit: TimeUnit) -> str:
    try:
        moment = _EPOCH + timedelta(microseconds=number * 10**6 // TICKS[unit])
    except OverflowError:
        return "beyond the year 9999"
    return moment.isoformat().replace("+00:00", "Z")


DAY_US = 86_400_000_000


MILLISECOND_US = 1_000
