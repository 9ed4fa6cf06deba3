"""Every error of the package, as one tree.

SpoJoinError
├── ConfigurationError      wrong settings or a wrong query: ends the start with a one-sentence message
│   └── QueryError          a mistake in a query file, with its line
├── BadData                 a message or record that can't be used: dead-lettered or refused, never retried
│   └── WireError           bytes that are not a whole, unharmed record
├── Retryable               the outside world failed for now: wait and try again
└── Stop                    this process must end
    └── Fenced              another instance has taken over this role
"""

from __future__ import annotations


class SpoJoinError(Exception):
    """The root: catch it to catch everything this package raises on purpose."""


class ConfigurationError(SpoJoinError):
    """Settings that contradict each other or the machine; the text says what to do next."""


class QueryError(ConfigurationError):
    """A mistake in a query; `line` is its 1-based line in the file, or None where no line applies."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line = line


class BadData(SpoJoinError):
    """Input that can't be used, with which field, which value and what was expected."""


class WireError(BadData):
    """Bytes that are truncated, altered, oversized or of another version."""


class Retryable(SpoJoinError):
    """A broker or store that doesn't answer now; trying again may help."""


class Stop(SpoJoinError):
    """This process must end; a supervisor may start it anew."""


class Fenced(Stop):
    """A newer instance of the same role has taken over."""
