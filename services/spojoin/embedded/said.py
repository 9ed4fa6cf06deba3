"""What a statement's author may not expect, said to users of Python."""

from __future__ import annotations

import warnings

from spojoin.model import Query


def warn_of_notes(*queries: Query) -> None:
    """Warn of each of the queries' notes, where the caller of the library called it."""
    for note in dict.fromkeys(note for query in queries for note in query.notes):
        warnings.warn(note, stacklevel=3)
