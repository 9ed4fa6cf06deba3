"""Why rows were refused: counted by reason, with the first of each."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from spojoin.embedded.rejects import Reject

LATE = "late"
#: The ordering's words for a late row: its time, and the latest time before it.
_LATE_BY = re.compile(r"event time (\S+) came after (\S+) in its input")
_MICROSECOND = dt.timedelta(microseconds=1)


class Reasons:
    """Why rows were refused so far: how many for each reason, and the first of them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self._late_by_us = 0

    def note(self, rejects: Iterable[Reject]) -> None:
        """Count refused rows."""
        for each in rejects:
            self._counts[each.reason] += 1
            self._first.setdefault(each.reason, f"{each.stream}, position {each.position}: {each.detail}")
            if each.reason == LATE and (times := _LATE_BY.search(each.detail)):
                time, latest = (dt.datetime.fromisoformat(each) for each in times.groups())
                self._late_by_us = max(self._late_by_us, (latest - time) // _MICROSECOND)

    def figures(self, rows: int) -> dict[str, Any]:
        """What a report says of refused rows. rows: how many were read.

        rejected_first: for each reason the first row, as "stream, position: detail"
        late_by_us: how far the latest of the late rows was behind its stream's time
        """
        return {
            "rows": rows,
            "rejected": self._counts.total(),
            "rejected_by_reason": dict(sorted(self._counts.items())),
            "rejected_first": dict(self._first),
            "late_by_us": self._late_by_us,
        }


def merged(reports: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of several inputs as those of one."""
    found = list(reports)
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for each in found:
        counts.update(each["rejected_by_reason"])
        first = {**each["rejected_first"], **first}
    return {
        "rows": sum(each["rows"] for each in found),
        "rejected": counts.total(),
        "rejected_by_reason": dict(sorted(counts.items())),
        "rejected_first": first,
        "late_by_us": max((each["late_by_us"] for each in found), default=0),
    }
