"""What passes between the machines of a query, by topic.

It counts what a search needs, as arrays in memory, so that the figures are comparable with a worker's `WorkDone`:

- frames: a tuple as in a worker's load: its codes, its seq and its window's bound;
- runs, batches: sorted codes, their orders, permutations, and seqs;
- partials: ranks, and intervals of ranks;
- matches: counts, and where the query lists partners, their seqs and offsets;
- plan: hot codes and their estimates.

It leaves out the headers of records and what only router and sink need: users' keys, event times, source offsets. On
the wire the same arrays may take less space, as they are packed there.
"""

from __future__ import annotations

from dataclasses import dataclass

from spojoin.model import Query
from spojoin.protocol.topology import Topic
from spojoin.published.layouts.load import tuple_bytes
from spojoin.wire.records import Batch, DirectionRanks, Frame, HotKeys, Part, Partial, Record, Run, SortedColumn


@dataclass(slots=True)
class Passed:
    """What was written to a topic, each record once.

    messages: tuples that records are about: those of a frame, run or batch; probes of a partial or part; hot codes
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
        """Count a record that was written, unless searching has no part in it, such as a result."""
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
                return probes, sum(map(_rank_bytes, record.directions))
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


def _rank_bytes(ranks: DirectionRanks) -> int:
    return ranks.positions.nbytes + ranks.start.nbytes + ranks.length.nbytes


def _hot(plan: HotKeys) -> tuple[int, int]:
    codes = sum(len(codes) for codes, _ in plan.hot.values())
    return codes, sum(codes.nbytes + counts.nbytes for codes, counts in plan.hot.values())
