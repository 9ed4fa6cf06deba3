"""Rows that what joins has refused, as dead letters."""

from __future__ import annotations

from spojoin.wire.records import DeadLetter


class Letters:
    """Those not taken yet. by_reason: how many there were of each reason."""

    def __init__(self) -> None:
        self.by_reason: dict[str, int] = {}
        self._waiting: list[DeadLetter] = []

    def add(self, letter: DeadLetter) -> None:
        """Note one more."""
        self._waiting.append(letter)
        self.by_reason[letter.reason] = self.by_reason.get(letter.reason, 0) + 1

    def take(self) -> list[DeadLetter]:
        """Those since the last call; `row` is the position in the stream's input."""
        taken, self._waiting = self._waiting, []
        return taken
