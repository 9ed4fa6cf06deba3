"""The cost of a layout for a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import pstdev

from spojoin.model import Query
from spojoin.wire.records import Frame

#: Bytes of a tuple besides its codes: its seq and its window's bound.
TUPLE_BYTES = 16


@dataclass(slots=True)
class WorkDone:
    """Counts of a worker since its start.

    Defined alike for all layouts; for the product's own, batches are counted as well as frames (own_loads).

    stored, asked: tuples; messages, bytes: tuples that its layout must send it, to store, to search for, or both, and
        their size; log_messages, log_bytes: the same for the whole log, which it reads
    bytes_max: the most that it held; comparisons: pairs of a tuple and one in its window that the worker answered for,
        whatever its method looks at to do so; examined: comparisons that its method made for that
    """

    stored: int = 0
    asked: int = 0
    messages: int = 0
    bytes: int = 0
    log_messages: int = 0
    log_bytes: int = 0
    bytes_max: int = 0
    comparisons: int = 0
    examined: int = 0

    def as_dict(self) -> dict[str, int]:
        """All numbers by name."""
        return {name: int(getattr(self, name)) for name in self.__slots__}

    def note_log(self, query: Query, frame: Frame) -> None:
        """Count a frame read from the log."""
        for stream, piece in enumerate(frame.slices):
            self.log_messages += len(piece)
            self.log_bytes += len(piece) * tuple_bytes(query, stream)

    def note_received(self, query: Query, stream: int, tuples: int) -> None:
        """Count `tuples` tuples of a stream that had to come here."""
        self.messages += tuples
        self.bytes += tuples * tuple_bytes(query, stream)


def tuple_bytes(query: Query, stream: int) -> int:
    """Bytes of a tuple on its way to a worker: its codes, its seq and its window's bound."""
    return TUPLE_BYTES + 8 * len(query.streams[stream].keys)


def imbalance(values: Sequence[float]) -> float:
    """The ratio of the largest value to the mean; 1 if all are equal or zero."""
    mean = sum(values) / len(values)
    return max(values) / mean if mean else 1.0


def balance(comparisons: Sequence[float]) -> dict[str, float]:
    """How comparisons are spread over workers; with the population's standard deviation."""
    return {
        "comparisons": sum(comparisons),
        "comparisons_imbalance": imbalance(comparisons),
        "comparisons_std": pstdev(comparisons),
    }


def measures(loads: Sequence[WorkDone]) -> dict[str, object]:
    """The cost of a layout for its workers, in total and for each; an imbalance is the largest value over the mean."""
    return {
        **balance([load.comparisons for load in loads]),
        "examined_imbalance": imbalance([load.examined for load in loads]),
        "examined_std": pstdev([load.examined for load in loads]),
        "stored_imbalance": imbalance([load.stored for load in loads]),
        "messages": sum(load.messages for load in loads),
        "bytes": sum(load.bytes for load in loads),
        "log_messages": sum(load.log_messages for load in loads),
        "log_bytes": sum(load.log_bytes for load in loads),
        "memory_bytes": sum(load.bytes_max for load in loads),
        "per_worker": [load.as_dict() for load in loads],
    }
