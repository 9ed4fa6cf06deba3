"""Every error of the package, as one tree.

SpoJoinError
├── ConfigurationError      wrong settings or a wrong query: ends the start with a one-sentence message
│   └── QueryError          a mistake in a query file, with its line
├── BadData                 a message or record that can't be used: dead-lettered or refused, never retried
│   ├── WireError           bytes that are not a whole, unharmed record
│   └── WrongTypeGuess      a value of another type than the first rows of its column suggest
├── Retryable               the outside world failed for now: wait and try again
└── Stop                    this process must end
    └── Fenced              another instance has taken over this role
"""

from __future__ import annotations


class SpoJoinError(Exception):
    """The root: catch it to catch everything this package raises on purpose."""


class ConfigurationError(SpoJoinError):
    """Settings that contradict each other or the machine; the text says what to do next."""


class Place(int):
    """A line of a query, as an integer, and the column in that line; both count from 1."""

    column: int

    def __new__(cls, line: int, column: int) -> Place:
        place = super().__new__(cls, line)
        place.column = column
        return place


class QueryError(ConfigurationError):
    """A mistake in a query; `line` is its 1-based line in the file, or None if no line applies.

    column: the 1-based column if the line is a `Place`, as all places in a statement are; otherwise None
    instead: the whole statement, corrected, if that is known; it ends the message
    """

    def __init__(self, message: str, line: int | None = None, *, instead: str | None = None) -> None:
        column = line.column if isinstance(line, Place) else None
        where = f"line {line}" if column is None else f"line {line}, column {column}"
        placed = message if line is None else f"{where}: {message}"
        super().__init__(placed if instead is None else f"{placed}; write: {instead}")
        self.line = line
        self.column = column
        self.instead = instead


class BadData(SpoJoinError):
    """Input that can't be used, with which field, which value and what was expected."""


class WireError(BadData):
    """Bytes that are truncated, altered, oversized or of another version."""


class WrongTypeGuess(BadData):
    """A value of another type than the first rows of its column suggest; the text says how to declare it."""


class Retryable(SpoJoinError):
    """A broker or store that doesn't answer now; trying again may help."""


class Stop(SpoJoinError):
    """This process must end; a supervisor may start it anew."""


class Fenced(Stop):
    """A newer instance of the same role has taken over."""
