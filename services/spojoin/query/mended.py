"""Mistakes that edits of the statement's text put right; the whole text is known where the statement is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlglot import exp

from spojoin.errors import QueryError

#: From one character up to another, and what stands there instead.
Edit = tuple[int, int, str]


class Mended(QueryError):
    """A mistake, and what puts it right."""

    def __init__(self, message: str, line: int | None, edits: Sequence[Edit]) -> None:
        super().__init__(message, line)
        self.said = message
        self.edits = edits


@contextmanager
def mending(text: str) -> Iterator[None]:
    """Gives each such mistake the whole statement put right."""
    try:
        yield
    except Mended as error:
        raise QueryError(error.said, error.line, instead=_edited(text, error.edits)) from None


def span(node: exp.Expression) -> tuple[int, int] | None:
    """From which character to which a name reaches; None of anything but names."""
    if not isinstance(node, exp.Column | exp.Table | exp.Identifier):
        return None
    found = [each.meta for each in node.find_all(exp.Identifier) if "start" in each.meta]
    return (min(each["start"] for each in found), max(each["end"] for each in found) + 1) if found else None


def _edited(text: str, edits: Sequence[Edit]) -> str:
    for start, end, instead in sorted(edits, reverse=True):
        text = text[:start] + instead + text[end:]
    return text
