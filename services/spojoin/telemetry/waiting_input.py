"""The input that rows wait for, since when, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from spojoin.model import Query
from spojoin.ports.interfaces import Fields
from spojoin.protocol.machine import Holder
from spojoin.suggest import moment
from spojoin.telemetry.durations import duration

#: An input that holds others for less than this time is only a little behind.
HELD_MS_MIN = 1_000.0

#: The fields for the store if nothing is held; without them, the last report would remain.
NOTHING_HELD: Fields = {"held_name": ""}


class HeldBy(NamedTuple):
    """The input that rows wait for.

    name: the input's name, with the partition if it has several; is_table: whether it is a table without a row yet
    reached: its event time in words, empty if it has none; ms: for how long that hasn't moved; rows: how many wait
    """

    name: str
    is_table: bool
    reached: str
    ms: float
    rows: int

    def __str__(self) -> str:
        if self.is_table:
            return f"rows wait for a first row of the table {self.name}, for {duration(self.ms / 1_000)}"
        at = f"which is at {self.reached}" if self.reached else "which has no row yet"
        waiting = f": {self.rows:,} {'row waits' if self.rows == 1 else 'rows wait'}" if self.rows else ""
        return f"event time waits for {self.name}, {at}, for {duration(self.ms / 1_000)}{waiting}"

    def fields(self) -> Fields:
        return {f"held_{name}": int(value) if name == "is_table" else value for name, value in self._asdict().items()}


def held_by(fields: Mapping[str, str]) -> HeldBy | None:
    """The input that rows wait for, by a service's report; None if nothing is held for long."""
    if not fields.get("held_name"):
        return None
    found = HeldBy(
        fields["held_name"],
        fields.get("held_is_table") == "1",
        fields.get("held_reached", ""),
        float(fields.get("held_ms", "0")),
        int(fields.get("held_rows", "0")),
    )
    return found if found.ms >= HELD_MS_MIN else None


class HeldSince:
    """Measures for how long rows have waited for the same input at the same event time."""

    def __init__(self) -> None:
        self._same: tuple[int, int | None, int | None] | None = None
        self._since_ms = 0.0

    def note(self, holder: Holder | None, query: Query, now_ms: float) -> HeldBy | None:
        """The input that rows wait for now; `now_ms` must never run backwards."""
        if holder is None:
            self._same = None
            return None
        same = (holder.stream, holder.partition, holder.reached_us)
        if same != self._same:
            self._same, self._since_ms = same, now_ms
        stream = query.inputs[holder.stream]
        name = stream.name if holder.partitions < 2 else f"{stream.name}, partition {holder.partition}"
        reached = "" if holder.reached_us is None else moment(holder.reached_us)
        return HeldBy(name, stream.table is not None, reached, now_ms - self._since_ms, holder.rows)
