"""Which input rows earlier generations of a query have answered (rule P12).

In arrival order, these are all rows before some place of each input. In event-time order, rows leave an input in a
different order: rows are also answered if they had been read and are not behind the last row that went out, the
frontier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson

from spojoin.arrays import I64, Flags
from spojoin.wire.records import NEVER, Place

#: (stream, partition, offset, row)
RowPlace = tuple[int, int, int, int]
#: (time, stream, partition, offset, row): the total order by event time
Key = tuple[int, int, int, int, int]
#: By stream and partition: a place, and an event time; no row after the place is earlier.
Promises = Mapping[tuple[int, int], tuple[Place, int]]
FIRST_PLACE: Place = (0, 0)


@dataclass(frozen=True, slots=True)
class PassedOrder:
    """The rows that one generation's event-time order had passed at its last checkpoint.

    frontier: the last row that went out; reads: how far each input had been read
    late: rows that came too late for the merge, or were refused behind the cut, by that generation's conditions and
        lateness; the next generation's may differ
    promised: for an input, a place that its position has passed, and the time before which no row follows that place
    """

    frontier: Key
    reads: Mapping[tuple[int, int], Place]
    late: frozenset[RowPlace]
    promised: Promises = field(default_factory=dict)

    @classmethod
    def from_saved(cls, saved: Mapping[str, Any]) -> PassedOrder:
        """The order in a router's checkpoint."""
        time_us, stream, partition, offset, row = saved["frontier"][0]
        reads = {(s, p): (o, r) for s, p, o, r in saved["read"]}
        late = frozenset((s, p, o, r) for s, p, o, r in saved["late"])
        return cls((time_us, stream, partition, offset, row), reads, late, promises_of(saved))

    def saved(self) -> dict[str, Any]:
        """The form for a checkpoint."""
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
        """Whether this order has passed all rows that the other answered."""
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
    """The rows that earlier generations have answered.

    cut: by (stream, partition), the place before which every row was answered or refused
    highs: the largest event time before the cut, if known
    passed: in event-time order, what each generation had passed, if it answered rows that no later one covers: one with
        a smaller lateness may get further without having read as far
    """

    cut: Mapping[tuple[int, int], Place] = field(default_factory=dict)
    highs: Mapping[tuple[int, int], int] = field(default_factory=dict)
    passed: tuple[PassedOrder, ...] = ()

    @classmethod
    def from_takeover(
        cls, cut: Mapping[tuple[int, int], Place], highs: Mapping[tuple[int, int], int], saved: bytes
    ) -> Answered:
        """The rows answered before a takeover, by its reader's streams; `saved`: one or more checkpoints, or empty."""
        found = orjson.loads(saved) if saved else []
        return cls(
            cut, highs, tuple(PassedOrder.from_saved(each) for each in (found if isinstance(found, list) else [found]))
        )

    def saved_with(self, last: PassedOrder | None) -> bytes:
        """The passed orders for the next takeover; `last`: of the generation that ends; empty if there are none."""
        passed = [each for each in self.passed if last is None or not last.covers(each)]
        if last is not None and not any(each.covers(last) for each in passed):
            passed.append(last)
        promised = {**self.promised, **({} if last is None else last.promised)}
        return orjson.dumps([replace(each, promised=promised).saved() for each in passed]) if passed else b""

    @property
    def promised(self) -> Promises:
        """The inputs' promises, each from the last generation that read one."""
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
        """The place of an input before which all rows were answered."""
        return self.cut.get((stream, partition), FIRST_PLACE)

    def high_of(self, stream: int, partition: int) -> int:
        """The largest event time of an input before its cut.

        An input without a row there counts as having reached the time up to which the others were merged.
        """
        high = self.highs.get((stream, partition), NEVER)
        return self.merged_us if high == NEVER else high

    @property
    def merged_us(self) -> int:
        """The event time of the last row that went out in event-time order; NEVER if none did."""
        return max((each.frontier[0] for each in self.passed), default=NEVER)

    def end_of(self, stream: int, partition: int) -> Place:
        """The place of an input after which no row was answered."""
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
        """How far an input had been read in event-time order."""
        return max((each.reads.get((stream, partition), FIRST_PLACE) for each in self.passed), default=FIRST_PLACE)


def promises_of(saved: Mapping[str, Any]) -> Promises:
    """The promises in a router's checkpoint; checkpoints of earlier versions have none."""
    return {(s, p): ((o, r), time_us) for s, p, o, r, time_us in saved.get("promised", ())}


def saved_promises(promised: Promises) -> list[list[int]]:
    """Promises in the form for a checkpoint."""
    return [[*source, *place, time_us] for source, (place, time_us) in sorted(promised.items())]


def before(offsets: I64, rows: I64, place: Place) -> Flags:
    """Which rows of an input, given by int64 (n,) offsets and rows, come before a place."""
    found: Flags = (offsets < place[0]) | ((offsets == place[0]) & (rows < place[1]))
    return found
