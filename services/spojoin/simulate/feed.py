"""The users' inputs of one seed: how much is written, and how far each router instance has read."""

from __future__ import annotations

from collections.abc import Mapping

from spojoin.protocol.machine import InputMachine
from spojoin.simulate.messages import ENDS_AGAIN, ScenarioMessage, Source

#: A message of an input, and a row in it.
Cursor = tuple[int, int]


class InputsFeed:
    """Messages that users have written so far, read by routers from the positions in the log."""

    def __init__(self, inputs: Mapping[Source, tuple[ScenarioMessage, ...]]) -> None:
        self.available = dict.fromkeys(inputs, 0)
        self._inputs = inputs
        self._ends = {source: _without_ends_again(messages) for source, messages in inputs.items()}
        self._cursors: dict[str, dict[Source, Cursor]] = {}

    def grow(self, source: Source) -> None:
        """One more message of an input is written, if there is one."""
        self.available[source] = min(self.available[source] + 1, self._ends[source])

    @property
    def is_complete(self) -> bool:
        """Whether everything is written."""
        return all(count >= self._ends[source] for source, count in self.available.items())

    def complete(self) -> None:
        """Everything is written."""
        self.available = dict(self._ends)

    def end_again(self) -> None:
        """The promise at the end of each input comes once more, if it may."""
        self.available = {source: min(end + 1, len(self._inputs[source])) for source, end in self.available.items()}

    def readable(self, name: str, router: InputMachine) -> list[Source]:
        """Inputs that hold a message which the router instance `name` wants now."""
        if not router.active:
            return []
        cursors = self._cursors_of(name, router)
        for source, (offset, _) in cursors.items():
            router.on_input_end(*source, ended=offset == self.available[source])
        return [s for s, (offset, _) in cursors.items() if offset < self.available[s] and router.wants_rows(*s)]

    def take(self, name: str, source: Source, messages_max: int) -> tuple[tuple[ScenarioMessage, ...], int]:
        """The next messages of an input for the router instance `name`, and the row of the first to begin with."""
        cursors = self._cursors[name]
        offset, row = cursors[source]
        end = min(offset + messages_max, self.available[source])
        cursors[source] = (end, 0)
        return self._inputs[source][offset:end], row

    def _cursors_of(self, name: str, router: InputMachine) -> dict[Source, Cursor]:
        if name not in self._cursors:
            at = router.sources()
            self._cursors[name] = {s: (at[s].offset, at[s].row) if s in at else (0, 0) for s in self._inputs}
        return self._cursors[name]


def _without_ends_again(messages: tuple[ScenarioMessage, ...]) -> int:
    is_ended = bool(messages) and messages[-1].heartbeat_us is not None
    return len(messages) - (ENDS_AGAIN if is_ended else 0)
