"""What a statement's author may not expect, said to users of Python."""

from __future__ import annotations

import warnings

from spojoin.model import Query


def warn_of_notes(query: Query) -> None:
    """Warn of each of the query's notes, where the caller of the library called it."""
    for note in query.notes:
        warnings.warn(note, stacklevel=3)
