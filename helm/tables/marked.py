"""Handwritten pages with generated tables between marks."""

from __future__ import annotations

from collections.abc import Iterable

_END = "<!-- to here -->"


def with_table(page: str, name: str, lines: Iterable[str]) -> str:
    """The page with `lines` between the marks of that name."""
    begin = f"<!-- Made by `python -m helm.tables --write` from here on: {name} -->"
    before, found, rest = page.partition(begin)
    if not found:
        raise ValueError(f"the page has no mark {begin}")
    _, _, after = rest.partition(_END)
    return "\n".join([before + begin, "", *lines, "", _END + after])
