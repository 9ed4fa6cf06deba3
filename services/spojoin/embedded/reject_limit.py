"""How many rows a run may refuse before it counts as failed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from spojoin.errors import ConfigurationError

_EXPECTED = "expected a share of the rows, such as 0.5 or 50%, or a whole number of rows, such as 100"
_WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class RejectLimit:
    """The most rows that may be refused: a `fraction` of all rows (0 to 1), or else `rows` of them.

    text: the limit as it was written
    """

    text: str
    fraction: Fraction | None = None
    rows: int = 0

    def is_broken_by(self, refused: int, rows: int) -> bool:
        """Whether `refused` of `rows` rows are too many; all of them always are."""
        if not refused:
            return False
        allowed = self.rows if self.fraction is None else self.fraction * rows
        return refused > allowed or refused == rows


def parse_reject_limit(given: str | float, option: str = "--max-rejects ") -> RejectLimit:
    """The limit that is meant: '0.5', '50%' and 0.5 are shares, '100' and 100 a number. Raises ConfigurationError.

    option: what names the limit in messages
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
