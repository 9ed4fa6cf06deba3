"""Messages of a simulated input."""

from __future__ import annotations

from dataclasses import dataclass

from spojoin.simulate.oracle import SourceRow

#: An input partition: stream and partition.
Source = tuple[int, int]
#: How often the promise that ends an input comes again at rest: a generation in event-time order that follows one by
#: arrival knows of no promise from before its beginning.
ENDS_AGAIN = 2


@dataclass(frozen=True, slots=True)
class ScenarioMessage:
    """One message of an input partition: rows, or none and a promise of silence up to `heartbeat_us`."""

    offset: int
    rows: tuple[SourceRow, ...]
    heartbeat_us: int | None
