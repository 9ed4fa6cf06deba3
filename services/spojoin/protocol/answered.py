"""Which input rows earlier generations of a query have answered (rule P12).

By arrival these are all rows before some place of each input. By event time rows leave an input out of its order: also
answered are rows that had been read and come no later in the order than the last row that went out, the frontier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from spojoin.wire.records import I64

#: Offset of a message, and row within it.
Place = tuple[int, int]
#: (stream, partition, offset, row)
RowPlace = tuple[int, int, int, int]
#: (time, stream, partition, offset, row): the total order by event time
Key = tuple[int, int, int, int, int]
Flags = NDArray[np.bool_]
#: By stream and partition: a place, and the event time before which no row behind it is.
Promises = Mapping[tuple[int, int], tuple[Place, int]]
FIRST_PLACE: Place = (0, 0)
NEVER = -(2**63)


@dataclass(frozen=True, slots=True)
class PassedOrder:
    """What one generation's order by event time had passed at its last checkpoint.

    frontier: the last row that went out; reads: how far each input had been read
    late: rows that had come too late for the merge, or were refused behind the cut: by that generation's conditions and
        lateness, which are not those of the next one
    promised: of an input, the time before which nothing follows behind a place that positions have passed
    """

    frontier: Key
    reads: Mapping[tuple[int, int], Place]
    late: frozenset[RowPlace]
    promised: Promises = field(default_factory=dict)

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> PassedOrder:
        """What a router's checkpoint says."""
        time_us, stream, partition, offset, row = saved["frontier"][0]
        reads = {(s, p): (o, r) for s, p, o, r in saved["read"]}
        late = frozenset((s, p, o, r) for s, p, o, r in saved["late"])
        return cls((time_us, stream, partition, offset, row), reads, late, promises_of(saved))

    def saved(self) -> dict[str, Any]:
        """The same for a checkpoint."""
        return {
            "frontier": [self.frontier],
            "read": [[*source, *place] for source, place in sorted(self.reads.items())],
            "late": [list(row) for row in sorted(self.late)],
            "promised": saved_promises(self.promised),
        }

    def has_read(self, row: RowPlace) -> bool:
        """Whether a row had been read."""
        return row[2:] < self.reads.get(row[:2], FIRST_PLACE)

    def covers(self, other: PassedOrder) -> bool:
        """Whether everything that the other answered is passed here as well."""
        return (
            self.frontier >= other.frontier
            and all(self.reads.get(source, FIRST_PLACE) >= place for source, place in other.reads.items())
            and all(row in other.late or not other.has_read(row) for row in self.late)
        )

    def rows(self, source: tuple[int, int], offsets: I64, rows: I64, times_us: I64) -> Flags:
        """Which rows of an input, (n,) each, had been read, come no later than the frontier, and were not late."""
        read = before(offsets, rows, self.reads.get(source, FIRST_PLACE))
        return read & self._is_out(source, offsets, rows, times_us) & ~self._were_late(source, offsets, rows)

    def _is_out(self, source: tuple[int, int], offsets: I64, rows: I64, times_us: I64) -> Flags:
        time_us, stream, partition, offset, row = self.frontier
        if source == (stream, partition):
            ties = before(offsets, rows, (offset, row + 1))
        else:
            ties = np.full(len(offsets), source < (stream, partition))
        found: Flags = (times_us < time_us) | ((times_us == time_us) & ties)
        return found

    def _were_late(self, source: tuple[int, int], offsets: I64, rows: I64) -> Flags:
        found = np.zeros(len(offsets), np.bool_)
        for offset, row in (row[2:] for row in self.late if row[:2] == source):
            found |= (offsets == offset) & (rows == row)
        return found


@dataclass(frozen=True, slots=True)
class Answered:
    """cut: per (stream, partition), the place before which every row was answered or refused.

    highs: the largest event time before the cut, where known
    passed: where rows were ordered by event time, what each generation had passed that answered rows which no later one
        covers: one with a smaller lateness may go further without having read as far
    """

    cut: Mapping[tuple[int, int], Place] = field(default_factory=dict)
    highs: Mapping[tuple[int, int], int] = field(default_factory=dict)
    passed: tuple[PassedOrder, ...] = ()

    @classmethod
    def of(cls, cut: Mapping[tuple[int, int], Place], highs: Mapping[tuple[int, int], int], saved: bytes) -> Answered:
        """What a takeover says, by its reader's streams; `saved`: a checkpoint, some of them, or empty."""
        found = orjson.loads(saved) if saved else []
        return cls(cut, highs, tuple(PassedOrder.of(each) for each in (found if isinstance(found, list) else [found])))

    def saved_with(self, last: PassedOrder | None) -> bytes:
        """For the next takeover: what was passed, `last` by the generation that ends; empty for nothing."""
        passed = [each for each in self.passed if last is None or not last.covers(each)]
        if last is not None and not any(each.covers(last) for each in passed):
            passed.append(last)
        promised = {**self.promised, **({} if last is None else last.promised)}
        return orjson.dumps([replace(each, promised=promised).saved() for each in passed]) if passed else b""

    @property
    def promised(self) -> Promises:
        """What was promised of the inputs, by the generation that heard of it last."""
        return {source: promise for each in self.passed for source, promise in each.promised.items()}

    @property
    def reads(self) -> dict[tuple[int, int], Place]:
        """How far each input had been read by the generation that read furthest."""
        sources = {source for each in self.passed for source in each.reads}
        return {source: self.read_of(*source) for source in sources}

    def took(self, row: RowPlace) -> bool:
        """Whether some generation had read a row without refusing it."""
        return any(each.has_read(row) and row not in each.late for each in self.passed)

    def cut_of(self, stream: int, partition: int) -> Place:
        """The place of an input before which no row is left to answer."""
        return self.cut.get((stream, partition), FIRST_PLACE)

    def high_of(self, stream: int, partition: int) -> int:
        """The largest event time of an input before its cut."""
        return self.highs.get((stream, partition), NEVER)

    def end_of(self, stream: int, partition: int) -> Place:
        """The place of an input from which on no row was answered."""
        return max(self.cut_of(stream, partition), self.read_of(stream, partition))

    def rows(self, stream: int, partition: int, offsets: I64, rows: I64, times_us: I64 | None) -> Flags:
        """Which rows of an input, (n,) each, were answered, except for those late within their partition."""
        found = before(offsets, rows, self.cut_of(stream, partition))
        if times_us is None:
            return found
        for each in self.passed:
            found |= each.rows((stream, partition), offsets, rows, times_us)
        return found

    def read_of(self, stream: int, partition: int) -> Place:
        """How far an input had been read when rows left it out of its order."""
        return max((each.reads.get((stream, partition), FIRST_PLACE) for each in self.passed), default=FIRST_PLACE)


def promises_of(saved: Mapping[str, Any]) -> Promises:
    """What a router's checkpoint says was promised; those of earlier versions say nothing."""
    return {(s, p): ((o, r), time_us) for s, p, o, r, time_us in saved.get("promised", ())}


def saved_promises(promised: Promises) -> list[list[int]]:
    """The same for a checkpoint."""
    return [[*source, *place, time_us] for source, (place, time_us) in sorted(promised.items())]


def before(offsets: I64, rows: I64, place: Place) -> Flags:
    """Which rows of an input, by int64 (n,) offsets and rows, lie before one of its places."""
    found: Flags = (offsets < place[0]) | ((offsets == place[0]) & (rows < place[1]))
    return found
