"""Parts of messages: lists of names, unknown names with the one that was probably meant, moments and spans."""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Iterable

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_UNITS_US = ((86_400_000_000, "day"), (3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"), (1_000, "ms"))


def listed(names: Iterable[str]) -> str:
    """The names as a list in words: `a, b or c`."""
    *head, last = list(names) or ["nothing"]
    return f"{', '.join(head)} or {last}" if head else last


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """`unknown KIND 'NAME': expected ...`, with the closest known name where one is close."""
    choices = list(known)
    meant = closest(name, choices)
    hint = f"; did you mean '{meant}'?" if meant else ""
    return f"unknown {kind} '{name}': expected {listed(choices)}{hint}"


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, in any case; None if none is close."""
    choices = list(known)
    close = difflib.get_close_matches(name.lower(), [choice.lower() for choice in choices], 1)
    return next((choice for choice in choices if close and choice.lower() == close[0]), None)


def moment(time_us: int) -> str:
    """An event time, microseconds since 1970, in words: `2024-03-01T10:00:10Z`."""
    try:
        found = _EPOCH + dt.timedelta(microseconds=time_us)
        digits = "auto" if found.microsecond % 1_000 else "milliseconds" if found.microsecond else "seconds"
        return found.isoformat(timespec=digits).replace("+00:00", "Z")
    except OverflowError:
        return f"{time_us} us since 1970"


def span(us: int) -> str:
    """A length of time, exactly, in the largest unit that fits: `90 s`."""
    if us == 0:
        return "0 s"
    unit, name = next(((size, name) for size, name in _UNITS_US if us % size == 0), (1, "us"))
    return f"{us // unit:,} {name}"
