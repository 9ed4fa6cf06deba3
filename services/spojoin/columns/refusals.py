"""Refused values and rows, each with a short stable reason and a sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


class BadValue(Exception):
    """A value that doesn't fit its column's type; `reason` is a short stable word."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Refusals:
    """The refused rows of a batch of `rows` rows; only a row's first reason is kept."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.by_row: dict[int, tuple[str, str]] = {}

    def add(self, row: int, reason: str, detail: str) -> None:
        self.by_row.setdefault(row, (reason, detail))

    def add_where(self, bad: NDArray[np.bool_], reason: str, detail: str) -> None:
        """Refuse every row of a mask (n,) for one reason."""
        if bad.any():
            for row in np.flatnonzero(bad).tolist():
                self.add(row, reason, detail)

    def kept(self) -> NDArray[np.int64]:
        """The rows not refused, ascending."""
        if not self.by_row:
            return np.arange(self.rows, dtype=np.int64)
        keep = np.ones(self.rows, dtype=np.bool_)
        keep[list(self.by_row)] = False
        return np.flatnonzero(keep)


#: The reason for refusing a line or message that is not a row.
MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that can't take part: its position in the batch, a short stable reason, and a sentence."""

    row: int
    reason: str
    detail: str


#: The reason for refusing a row for which an expression has no value.
FAILED = "expression"
