"""What passes between the machines of a query, by topic.

Counted is what searching takes, as arrays in memory, so that it adds up with a worker's `Load`:

- frames: a tuple as a worker's load has it, its codes, its seq and its window's bound;
- runs, batches: sorted codes, their orders, permutations, and seqs;
- partials: ranks, and intervals of ranks;
- matches: counts, and where partners are asked for their seqs and offsets;
- plan: hot codes and their estimates.

Heads of records are not counted, nor what only router and sink need: users' keys, event times, source offsets. On a
wire the same arrays may take less, as they are packed there.
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

    messages: tuples that records were about: those of a frame, run or batch; the probes of a partial or part; hot codes
    """

    records: int = 0
    messages: int = 0
    bytes: int = 0

    def as_dict(self) -> dict[str, int]:
        """All numbers by name."""
        return {"records": self.records, "messages": self.messages, "bytes": self.bytes}


class Traffic:
    """Follows the records of a query from machine to machine; a few additions a record."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._passed: dict[Topic, Passed] = {}

    def note(self, topic: Topic, record: Record) -> None:
        """A record was written; one that search has no part in, such as a result, is left out."""
        counted = _counted(self._query, record)
        if counted is not None:
            passed = self._passed.setdefault(topic, Passed())
            passed.records += 1
            passed.messages += counted[0]
            passed.bytes += counted[1]

    def figures(self) -> dict[Topic, dict[str, int]]:
        """What has passed so far."""
        return {topic: passed.as_dict() for topic, passed in self._passed.items()}


def _counted(query: Query, record: Record) -> tuple[int, int] | None:
    """Messages and bytes of a record, or None where it isn't counted."""
    match record:
        case Frame():
            return record.count, sum(len(piece) * tuple_bytes(query, s) for s, piece in enumerate(record.slices))
        case Run() | Batch():
            return record.end - record.first, run_bytes(record) if isinstance(record, Run) else batch_bytes(record)
        case Partial():
            return _probes(query, record), sum(map(_rank_bytes, record.directions))
        case Part():
            return record.end - record.begin, part_bytes(record)
        case HotKeys():
            return _hot(record)
        case _:
            return None


def run_bytes(run: Run) -> int:
    """Of its columns, and of the seqs where it carries them."""
    return sum(map(_column_bytes, run.columns)) + (0 if run.seqs is None else run.seqs.nbytes)


def batch_bytes(batch: Batch) -> int:
    """Of its columns, permutations and seqs."""
    permutations = sum(each.nbytes for each in batch.permutations.values())
    return sum(map(_column_bytes, batch.columns)) + permutations + batch.seqs.nbytes


def part_bytes(part: Part) -> int:
    """Of counts, offsets and partners in all directions."""
    arrays = (array for found in part.directions for array in (found.counts, found.offsets, found.partners))
    return sum(array.nbytes for array in arrays if array is not None)


def _column_bytes(column: SortedColumn) -> int:
    return column.codes.nbytes + column.order.nbytes


def _rank_bytes(ranks: DirectionRanks) -> int:
    return ranks.positions.nbytes + ranks.start.nbytes + ranks.length.nbytes


def _probes(query: Query, partial: Partial) -> int:
    """Both directions of a self join have the same probes."""
    return sum(
        {
            direction.probe: len(ranks.start)
            for direction, ranks in zip(query.directions, partial.directions, strict=True)
        }.values()
    )


def _hot(plan: HotKeys) -> tuple[int, int]:
    codes = sum(len(codes) for codes, _ in plan.hot.values())
    return codes, sum(codes.nbytes + counts.nbytes for codes, counts in plan.hot.values())
