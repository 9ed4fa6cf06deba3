"""Messages of a simulated input."""

from __future__ import annotations

from dataclasses import dataclass

from spojoin.simulate.oracle import SourceRow

#: An input partition: stream and partition.
Source = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ScenarioMessage:
    """One message of an input partition: rows, or none and a promise of silence up to `heartbeat_us`."""

    offset: int
    rows: tuple[SourceRow, ...]
    heartbeat_us: int | None
