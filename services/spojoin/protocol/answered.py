"""Which input rows earlier generations of a query have answered (rule P12).

By arrival these are all rows before some place of each input. By event time rows leave an input out of its order: also
answered are rows that had been read and come no later in the order than the last row that went out, the frontier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import orjson
from numpy.typing import NDArray

from spojoin.wire.records import I64

#: Offset of a message, and row within it.
Place = tuple[int, int]
#: (time, stream, partition, offset, row): the total order by event time
Key = tuple[int, int, int, int, int]
Flags = NDArray[np.bool_]
FIRST_PLACE: Place = (0, 0)
NEVER = -(2**63)


@dataclass(frozen=True, slots=True)
class Answered:
    """cut: per (stream, partition), the place before which every row was answered or refused.

    highs: the largest event time before the cut, where known
    frontier, reads, late: of the last checkpoint where rows were ordered by event time: the last row that went out, how
        far each input had been read, and rows that had come too late for the merge, or were refused behind the
        cut: by that generation's conditions and lateness, which are not those of the next one
    """

    cut: Mapping[tuple[int, int], Place] = field(default_factory=dict)
    highs: Mapping[tuple[int, int], int] = field(default_factory=dict)
    frontier: Key | None = None
    reads: Mapping[tuple[int, int], Place] = field(default_factory=dict)
    late: frozenset[tuple[int, int, int, int]] = frozenset()

    @classmethod
    def of(cls, cut: Mapping[tuple[int, int], Place], highs: Mapping[tuple[int, int], int], saved: bytes) -> Answered:
        """What a takeover says, by its reader's streams; `saved` is the router's last checkpoint, or empty."""
        if not saved:
            return cls(cut, highs)
        order = orjson.loads(saved)
        time_us, stream, partition, offset, row = order["frontier"][0]
        reads = {(s, p): (o, r) for s, p, o, r in order["read"]}
        late = frozenset((s, p, o, r) for s, p, o, r in order["late"])
        return cls(cut, highs, (time_us, stream, partition, offset, row), reads, late)

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
        if self.frontier is None or times_us is None:
            return found
        read = before(offsets, rows, self.read_of(stream, partition))
        found |= (
            read
            & self._is_out(stream, partition, offsets, rows, times_us)
            & ~self._were_late(stream, partition, offsets, rows)
        )
        return found

    def read_of(self, stream: int, partition: int) -> Place:
        """How far an input had been read when rows left it out of its order."""
        return self.reads.get((stream, partition), FIRST_PLACE)

    def _is_out(self, stream: int, partition: int, offsets: I64, rows: I64, times_us: I64) -> Flags:
        """Whether rows come no later than the frontier."""
        if self.frontier is None:
            return np.zeros(len(offsets), np.bool_)
        time_us, at_stream, at_partition, offset, row = self.frontier
        if (stream, partition) == (at_stream, at_partition):
            ties = before(offsets, rows, (offset, row + 1))
        else:
            ties = np.full(len(offsets), (stream, partition) < (at_stream, at_partition))
        found: Flags = (times_us < time_us) | ((times_us == time_us) & ties)
        return found

    def _were_late(self, stream: int, partition: int, offsets: I64, rows: I64) -> Flags:
        own = [row[2:] for row in self.late if row[:2] == (stream, partition)]
        found = np.zeros(len(offsets), np.bool_)
        for offset, row in own:
            found |= (offsets == offset) & (rows == row)
        return found


def before(offsets: I64, rows: I64, place: Place) -> Flags:
    """Which rows of an input, by int64 (n,) offsets and rows, lie before one of its places."""
    found: Flags = (offsets < place[0]) | ((offsets == place[0]) & (rows < place[1]))
    return found
