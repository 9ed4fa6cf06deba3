"""Sentences about the rows that a run refused: how many and why, what helps, and whether there were too many."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spojoin.embedded.refused import LATE
from spojoin.embedded.reject_limit import RejectLimit
from spojoin.model import Query
from spojoin.query.window import LENGTH_US_MAX

#: The number of reasons that are named, the commonest first; the others are counted together.
REASONS_MAX = 3

_UNITS_MS = ((3_600_000, "hours"), (60_000, "min"), (1_000, "s"), (1, "ms"))


def refused_line(report: Mapping[str, Any], query: Query) -> str | None:
    """One line about a run's refused rows with the commonest reasons and what helps; None where there are none."""
    refused: int = report["rejected"]
    if not refused:
        return None
    reasons: dict[str, int] = dict(sorted(report["rejected_by_reason"].items(), key=lambda each: -each[1]))
    named = [f"{count:,} {reason}{_example(report, reason)}" for reason, count in list(reasons.items())[:REASONS_MAX]]
    others = refused - sum(list(reasons.values())[:REASONS_MAX])
    named += [f"{others:,} for other reasons"] if others else []
    line = f"{refused:,} of {report['tuples'] + refused:,} rows refused: {', '.join(named)}"
    return f"{line}; {_late_advice(report['late_by_us'], query)}" if LATE in reasons else line


def too_many_refused(report: Mapping[str, Any], limit: RejectLimit, output: Path, rejects: Path | None) -> str | None:
    """A sentence if more rows were refused than `limit` allows, or all of them; else None."""
    refused: int = report["rejected"]
    rows: int = report["tuples"] + refused
    if not limit.is_broken_by(refused, rows):
        return None
    what = "all rows were refused" if refused == rows else f"more rows were refused than --max-rejects {limit.text}"
    kept = f"{output} holds the results of the other {report['tuples']:,}" if report["tuples"] else f"{output} is empty"
    shown = f"{rejects} holds the refused rows" if rejects else "add --rejects FILE to see each with its reason"
    return f"{what}: {kept}; {shown}"


def _example(report: Mapping[str, Any], reason: str) -> str:
    first = report["rejected_first"].get(reason)
    return f" (first: {first})" if first else ""


def _late_advice(late_by_us: int, query: Query) -> str:
    """What to write into the query, or do to the file, where times run back."""
    ways = ["sort the input by its time"]
    if query.is_self and not query.window.is_time and query.interval is None:
        ways.insert(0, "say 'order: arrival' to take rows as they come")
    if 0 < late_by_us <= LENGTH_US_MAX:
        ways.insert(0, f"times run back: say 'lateness: {duration(late_by_us)}' in the query to take all these")
    return ", or ".join(ways)


def duration(us: int) -> str:
    """Microseconds as the query writes durations, rounded up to whole milliseconds, in the largest unit that fits."""
    ms = math.ceil(us / 1_000)
    return next(f"{ms // size} {unit}" for size, unit in _UNITS_MS if ms % size == 0)
