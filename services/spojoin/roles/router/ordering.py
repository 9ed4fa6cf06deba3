"""The interface that brings rows of many inputs into one order, and the order of their arrival.

Every order pushes rows onto an OrderedQueue and recovers from the last frame's source positions and checkpoint.
"""

from __future__ import annotations

from typing import Protocol

from spojoin.roles.router.physical_input import PhysicalInput, columns_of
from spojoin.roles.router.queue import OrderedQueue, StreamColumns
from spojoin.wire.records import Rows


class Ordering(Protocol):
    """Turns rows of single inputs into rows in the total order."""

    def take(self, source: PhysicalInput, rows: Rows) -> None:
        """Enter rows of one input."""
        ...

    def advance(self) -> None:
        """Push on what has become ready."""
        ...

    def wants(self, source: PhysicalInput) -> bool:
        """Whether more rows of the input should be read."""
        ...

    def goes_out(self, source: PhysicalInput, row_id: int, time_us: int | None) -> None:
        """The input's row with this ledger number is the last of the frame in the making."""
        ...

    def watermark_us(self) -> int | None:
        """Rows to come have no earlier event times than this; None where nothing is known of them."""
        ...

    def checkpoint(self) -> bytes:
        """What a successor needs besides the inputs' positions."""
        ...


class ArrivalOrder:
    """Rows count as they come."""

    def __init__(self, queue: OrderedQueue, inputs: int) -> None:
        self._queue = queue
        self._count = inputs

    def take(self, source: PhysicalInput, rows: Rows) -> None:
        """Enter rows of one input."""
        origins, columns = columns_of(source, rows)
        source.ledger.enter(rows, rows.dead)
        by_input: list[StreamColumns | None] = [None] * self._count
        by_input[source.stream] = columns
        self._queue.push(origins, by_input)

    def advance(self) -> None:
        """Nothing waits."""

    def wants(self, source: PhysicalInput) -> bool:
        """Always: the queue's length is the router's concern."""
        return True

    def goes_out(self, source: PhysicalInput, row_id: int, time_us: int | None) -> None:
        """Rows go out in their input's order, so positions say all."""

    def watermark_us(self) -> int | None:
        """Rows may have any event times."""
        return None

    def checkpoint(self) -> bytes:
        """Nothing."""
        return b""
