"""Sentences about the rows that a run refused: how many and why, what helps, and whether there were too many."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spojoin.embedded.reasons import LATE
from spojoin.embedded.reject_limit import RejectLimit
from spojoin.errors import BadData
from spojoin.model import Query
from spojoin.query.window import LENGTH_US_MAX

#: The number of reasons that are named, the commonest first; the others are counted together.
REASONS_MAX = 3

_UNITS_MS = ((3_600_000, "hours"), (60_000, "min"), (1_000, "s"), (1, "ms"))


@dataclass(frozen=True, slots=True)
class Door:
    """How one of the ways to run a query spells what it is told, with {} for the value.

    shown: what says more of refused rows; has_order: whether the order of rows can be said there
    goes_on: whether rows may still come, so that none can be sorted
    """

    lateness: str
    max_rejects: str
    shown: str = ""
    has_order: bool = False
    goes_on: bool = False


RUN = Door("'lateness: {}' in the query", "--max-rejects {}", has_order=True)
SQL = Door("--lateness '{}'", "--max-rejects {}")
PYTHON = Door('lateness="{}"', "max_rejects={}", "Results.rejected counts them by reason")
JOIN = replace(PYTHON, shown="take_rejects() returns them", goes_on=True)
JOIN_OF_FILE = replace(JOIN, lateness=RUN.lateness, has_order=True)


def refused_line(report: Mapping[str, Any], query: Query | None, door: Door) -> str | None:
    """One line about a run's refused rows with the commonest reasons and what helps; None where there are none.

    report: what RefusedRows.figures gives; query: None where no rows are in an order of time
    """
    refused: int = report["rejected"]
    if not refused:
        return None
    reasons: dict[str, int] = dict(sorted(report["rejected_by_reason"].items(), key=lambda each: -each[1]))
    named = [f"{count:,} {reason}{_example(report, reason)}" for reason, count in list(reasons.items())[:REASONS_MAX]]
    others = refused - sum(list(reasons.values())[:REASONS_MAX])
    named += [f"{others:,} for other reasons"] if others else []
    line = f"{refused:,} of {report['rows']:,} rows refused: {', '.join(named)}"
    if query is None or LATE not in reasons:
        return line
    return f"{line}; {_late_advice(report['late_by_us'], query, door)}"


def too_many_refused(report: Mapping[str, Any], limit: RejectLimit, door: Door) -> str | None:
    """What is wrong if more rows were refused than `limit` allows, or all of them; else None."""
    refused, rows = report["rejected"], report["rows"]
    if not limit.is_broken_by(refused, rows):
        return None
    return (
        "all rows were refused"
        if refused == rows
        else (f"more rows were refused than {door.max_rejects.format(limit.text)}")
    )


def tell_refused(
    report: Mapping[str, Any], query: Query | None, limit: RejectLimit, door: Door = PYTHON, *, warns: bool = True
) -> None:
    """Raise BadData where too many rows were refused; else warn of them, if `warns`."""
    line = refused_line(report, query, door)
    if sentence := too_many_refused(report, limit, door):
        raise BadData(f"{sentence}: {line}; {door.shown}")
    if line and warns:
        warnings.warn(f"{line}; {door.shown}", stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """The level of the first frame outside this package, which the warning is for."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("spojoin."):
        level, frame = level + 1, frame.f_back
    return level


def _example(report: Mapping[str, Any], reason: str) -> str:
    first = report["rejected_first"].get(reason)
    return f" (first: {first})" if first else ""


def _late_advice(late_by_us: int, query: Query, door: Door) -> str:
    """What to tell the door, or do to the input, where times run back."""
    ways = [
        "sort the input by its time"
        if door.goes_on
        else "leave the lateness out, so that rows are sorted by their time"
    ]
    if door.has_order and query.is_self and not query.window.is_time and query.interval is None:
        ways.insert(0, "say 'order: arrival' to take rows as they come")
    if 0 < late_by_us <= LENGTH_US_MAX:
        ways.insert(
            0, f"times run backwards: say {door.lateness.format(duration(late_by_us))} to take all of these rows"
        )
    return ", or ".join(ways)


def duration(us: int) -> str:
    """Microseconds as queries write durations, rounded up to whole milliseconds, in the largest unit that fits."""
    ms = math.ceil(us / 1_000)
    return next(f"{ms // size} {unit}" for size, unit in _UNITS_MS if ms % size == 0)
