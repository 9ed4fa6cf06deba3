"""What a run reports about refused rows: how many and why, what helps, and whether there were too many."""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from spojoin.embedded.rejects import LATE
from spojoin.errors import BadData, ConfigurationError
from spojoin.model import Query
from spojoin.windows import TimeWindow

_EXPECTED = "expected a share of the rows, such as 0.5 or 50%, or a whole number of rows, such as 100"
_WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", re.ASCII)

#: How many reasons are named, beginning with the most common; the others are counted together.
REASONS_MAX = 3
_UNITS_MS = ((3_600_000, "hours"), (60_000, "min"), (1_000, "s"), (1, "ms"))


@dataclass(frozen=True, slots=True)
class RejectLimit:
    """How many rows may be refused: a `fraction` of all rows (0 to 1), or the number `rows` if `fraction` is None.

    text: the limit as the user wrote it
    """

    text: str
    fraction: Fraction | None = None
    rows: int = 0

    def is_broken_by(self, refused: int, rows: int) -> bool:
        """Whether `refused` of `rows` rows are too many; all rows always are."""
        if not refused:
            return False
        allowed = self.rows if self.fraction is None else self.fraction * rows
        return refused > allowed or refused == rows


def parse_reject_limit(given: str | float, option: str = "--max-rejects ") -> RejectLimit:
    """Read a limit: '0.5', '50%' and 0.5 are shares, '100' and 100 are numbers of rows. Raises ConfigurationError.

    option: the name of the limit in messages
    """
    text = str(given)
    written = f"{Decimal(text):f}" if isinstance(given, float) else text  # without an exponent
    match = None if isinstance(given, bool) else _WRITTEN.fullmatch(written)
    if match is None:
        raise ConfigurationError(f"{option}{text}: {_EXPECTED}")
    if not match[2] and "." not in match[1]:
        return RejectLimit(text, rows=int(match[1]))
    fraction = Fraction(match[1]) / (100 if match[2] else 1)
    if fraction > 1:
        raise ConfigurationError(f"{option}{text}: a share can't be more than the whole; {_EXPECTED}")
    return RejectLimit(text, fraction)


@dataclass(frozen=True, slots=True)
class Wording:
    """How one way to run a query spells its options, with {} for the value.

    shown: where to see the refused rows; has_order: whether the user can choose the order of rows
    goes_on: whether further rows may come, so that rows can't be sorted
    """

    lateness: str
    max_rejects: str
    shown: str = ""
    has_order: bool = False
    goes_on: bool = False


RUN = Wording("'lateness: {}' in the query", "--max-rejects {}", has_order=True)
SQL = Wording("--lateness '{}'", "--max-rejects {}")
PYTHON = Wording('lateness="{}"', "max_rejects={}", "Results.rejected counts them by reason")
JOIN = replace(PYTHON, shown="take_rejects() returns them", goes_on=True)
JOIN_OF_FILE = replace(JOIN, lateness=RUN.lateness, has_order=True)


def refused_line(report: Mapping[str, Any], query: Query | None, wording: Wording) -> str | None:
    """One line about a run's refused rows: the most common reasons, and what helps. None if no row was refused.

    report: see `RefusalCounts.figures`; query: None if no rows are ordered by time
    """
    refused: int = report["rejected"]
    if not refused:
        return None
    reasons: dict[str, int] = dict(sorted(report["rejected_by_reason"].items(), key=lambda each: -each[1]))
    named = [
        f"{count:,} {reason}{_first_example(report, reason)}" for reason, count in list(reasons.items())[:REASONS_MAX]
    ]
    others = refused - sum(list(reasons.values())[:REASONS_MAX])
    named += [f"{others:,} for other reasons"] if others else []
    line = f"{refused:,} of {report['rows']:,} rows refused: {', '.join(named)}"
    if query is None or LATE not in reasons:
        return line
    return f"{line}; {_late_advice(report['late_by_us'], query, wording)}"


def too_many_refused(report: Mapping[str, Any], limit: RejectLimit, wording: Wording) -> str | None:
    """A sentence if all rows were refused, or more than `limit` allows; otherwise None."""
    refused, rows = report["rejected"], report["rows"]
    if not limit.is_broken_by(refused, rows):
        return None
    if refused == rows:
        return "all rows were refused"
    return f"more rows were refused than {wording.max_rejects.format(limit.text)}"


def warn_or_raise(
    report: Mapping[str, Any], query: Query | None, limit: RejectLimit, wording: Wording = PYTHON, *, warns: bool = True
) -> None:
    """Raise BadData if too many rows were refused; otherwise warn of the refused rows, if `warns`."""
    line = refused_line(report, query, wording)
    if sentence := too_many_refused(report, limit, wording):
        raise BadData(f"{sentence}: {line}; {wording.shown}")
    if line and warns:
        warnings.warn(f"{line}; {wording.shown}", stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """The stack level of the first frame outside this package, whose author the warning is for."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("spojoin."):
        level, frame = level + 1, frame.f_back
    return level


def _first_example(report: Mapping[str, Any], reason: str) -> str:
    first = report["rejected_first"].get(reason)
    return f" (first: {first})" if first else ""


def _late_advice(late_by_us: int, query: Query, wording: Wording) -> str:
    """How to change the options or the input if event times run backwards."""
    ways = [
        "sort the input by its time"
        if wording.goes_on
        else "leave the lateness out, so that rows are sorted by their time"
    ]
    if wording.has_order and query.is_self and not query.window.needs_time:
        ways.insert(0, "say 'order: arrival' to take rows as they come")
    if 0 < late_by_us <= TimeWindow.LENGTH_MAX:
        ways.insert(
            0, f"times run backwards: say {wording.lateness.format(duration(late_by_us))} to take all of these rows"
        )
    return ", or ".join(ways)


def duration(us: int) -> str:
    """Microseconds as queries write durations, rounded up to whole milliseconds, in the largest unit that fits."""
    ms = math.ceil(us / 1_000)
    return next(f"{ms // size} {unit}" for size, unit in _UNITS_MS if ms % size == 0)
