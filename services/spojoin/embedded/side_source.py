"""A side of a statement's join, and what it is read from."""

from __future__ import annotations

from typing import NamedTuple

from spojoin.query.statement import JoinSide


class SideSource(NamedTuple):
    """A side of the join, its stream's name, and what is read."""

    side: JoinSide
    name: str
    source: object

    @property
    def names(self) -> tuple[str, str]:
        """By which options may name it."""
        return self.side.stream, self.name
