"""What `spojoin up` says where rows wait for an input: which one, and what to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from spojoin.errors import Retryable
from spojoin.ports.interfaces import Store
from spojoin.telemetry.held import HeldBy
from spojoin.telemetry.status import holder_of, read_status

#: An input that holds others for less than this may just be slow.
HELD_MS = 5_000.0


class HoldNotice:
    """Says once of each input that it holds the others; file: the query's, bootstrap: its Kafka's address."""

    def __init__(self, file: Path, bootstrap: str, say: Callable[[str], None]) -> None:
        self._file = file
        self._bootstrap = bootstrap
        self._say = say
        self._said: tuple[str, str] | None = None

    def look(self, store: Store) -> None:
        """Look at what services report; nothing is said while the store is away."""
        try:
            found = read_status(store, time.time_ns() // 1_000_000)
        except Retryable:
            return
        held = next((each for each in (holder_of(status.services) for status in found) if each is not None), None)
        if held is None:
            self._said = None
        elif held.ms >= HELD_MS and (held.name, held.reached) != self._said:
            self._said = held.name, held.reached
            self._say(f"{held}; {self._way_out(held)}")

    def _way_out(self, held: HeldBy) -> str:
        if held.is_table:
            return f"write messages with keys to the topic of {held.name}"
        return (
            f"send its rows or a heartbeat, end it with `spojoin send {self._file} --end --bootstrap "
            f"{self._bootstrap}`, or give the query an idle_timeout, such as `idle_timeout: 5 s`"
        )
