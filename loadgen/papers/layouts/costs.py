"""The costs of a layout: the work of each worker, and the traffic between a query's machines, by topic.

It counts the needs of a search, as arrays in memory, so that the figures are comparable with a worker's `WorkDone`:

- frames: a tuple as in a worker's load: its codes, its seq and its window's bound;
- runs, batches: sorted codes, their orders, permutations, and seqs;
- partials: ranks, and intervals of ranks;
- matches: counts, and if the query lists partners, their seqs and offsets;
- plan: hot codes and their estimates.

It leaves out the headers of records, and data that only router and sink need: users' keys, event times, source offsets.
On the wire the same arrays may take less space, as they are packed there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import pstdev

from spojoin.model import Query
from spojoin.protocol.topology import Topic
from spojoin.wire.records import Batch, Frame, HotKeys, Part, Partial, Record, Run, SortedColumn

#: Bytes of a tuple beside its codes: its seq and its window's bound.
TUPLE_BYTES = 16


@dataclass(slots=True)
class WorkDone:
    """Counts of a worker since its start.

    Defined alike for all layouts; for the product's own, batches are counted as well as frames (own_loads).

    stored, asked: tuples; messages, bytes: tuples that its layout must send it, to store, to search for, or both, and
        their size; log_messages, log_bytes: the same for the whole log, which it reads
    bytes_max: the most that it held; comparisons: pairs of a tuple and one in its window that the worker answered for,
        by any method; examined: comparisons that its method made for them
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
        """Count `tuples` tuples of a stream that this worker needs."""
        self.messages += tuples
        self.bytes += tuples * tuple_bytes(query, stream)


class Loads(ABC):
    """The cost of an evaluation for its workers."""

    def note(self, record: Record) -> None:
        """Count a record that all machines have read."""
        return

    @abstractmethod
    def loads(self) -> list[WorkDone]:
        """The cost of each worker so far."""

    def mutable_part(self) -> dict[str, int] | None:
        """The mutable part's cost, beside the workers'; None without a mutable part."""
        return None


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


@dataclass(slots=True)
class Passed:
    """The traffic of a topic, each record once.

    messages: the records' tuples: of a frame, run or batch; probes of a partial or part; hot codes
    """

    records: int = 0
    messages: int = 0
    bytes: int = 0

    def as_dict(self) -> dict[str, int]:
        """All numbers by name."""
        return {"records": self.records, "messages": self.messages, "bytes": self.bytes}


class Traffic:
    """Follows the records of a query from machine to machine, with a few additions per record."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._passed: dict[Topic, Passed] = {}
        self._tuple_bytes = [tuple_bytes(query, stream) for stream in range(len(query.streams))]
        #: of the directions with the same probes one: both of a self join have the same
        self._asking = {direction.probe: number for number, direction in enumerate(query.directions)}.values()

    def note(self, topic: Topic, record: Record) -> None:
        """Count a written record, unless it takes no part in searching, as a result."""
        counted = self._counted(record)
        if counted is not None:
            passed = self._passed.get(topic)
            if passed is None:
                self._passed[topic] = passed = Passed()
            passed.records += 1
            passed.messages += counted[0]
            passed.bytes += counted[1]

    def figures(self) -> dict[Topic, dict[str, int]]:
        """The traffic so far."""
        return {topic: passed.as_dict() for topic, passed in self._passed.items()}

    def _counted(self, record: Record) -> tuple[int, int] | None:
        """Messages and bytes of a record, or None if it isn't counted."""
        match record:
            case Part():
                return record.end - record.begin, part_bytes(record)
            case Partial():
                probes = sum([len(record.directions[number].start) for number in self._asking])
                return probes, sum(
                    ranks.positions.nbytes + ranks.start.nbytes + ranks.length.nbytes for ranks in record.directions
                )
            case Frame():
                sizes = zip(record.slices, self._tuple_bytes, strict=True)
                return record.count, sum([len(piece) * size for piece, size in sizes])
            case Run() | Batch():
                return record.end - record.first, run_bytes(record) if isinstance(record, Run) else batch_bytes(record)
            case HotKeys():
                return _hot(record)
            case _:
                return None


def run_bytes(run: Run) -> int:
    """Bytes of its columns, and of its seqs if it carries them."""
    return sum(map(_column_bytes, run.columns)) + (0 if run.seqs is None else run.seqs.nbytes)


def batch_bytes(batch: Batch) -> int:
    """Bytes of its columns, permutations and seqs."""
    permutations = sum(each.nbytes for each in batch.permutations.values())
    return sum(map(_column_bytes, batch.columns)) + permutations + batch.seqs.nbytes


def part_bytes(part: Part) -> int:
    """Bytes of counts, offsets and partners in all directions."""
    arrays = [array for found in part.directions for array in (found.counts, found.offsets, found.partners)]
    return sum([array.nbytes for array in arrays if array is not None])


def _column_bytes(column: SortedColumn) -> int:
    return column.codes.nbytes + column.order.nbytes


def _hot(plan: HotKeys) -> tuple[int, int]:
    codes = sum(len(codes) for codes, _ in plan.hot.values())
    return codes, sum(codes.nbytes + counts.nbytes for codes, counts in plan.hot.values())
