"""Parts of messages: what was found, what was expected and what was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def listed(names: Iterable[str]) -> str:
    """The names as a list in words: `a, b or c`."""
    *head, last = list(names) or ["nothing"]
    return f"{', '.join(head)} or {last}" if head else last


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """`unknown KIND 'NAME': expected ...`, with the closest known name where one is close."""
    choices = list(known)
    close = difflib.get_close_matches(name.lower(), [choice.lower() for choice in choices], 1)
    meant = [choice for choice in choices if close and choice.lower() == close[0]]
    hint = f"; did you mean '{meant[0]}'?" if meant else ""
    return f"unknown {kind} '{name}': expected {listed(choices)}{hint}"
