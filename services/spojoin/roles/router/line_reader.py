"""Many lines of text at once: a fast parser for all, and a patient look at the few that it refuses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.model import Stream
from spojoin.query.extract import Extracted, extract
from spojoin.roles.router.message_headers import AddHeaders

Ids = NDArray[np.int64]

#: Once for lines that are malformed, once for values of other types than the rest's.
_SIFTINGS = 2


class BadLine(NamedTuple):
    """A line, or row, that can't take part, by its number among those given."""

    id: int
    reason: str
    detail: str


@dataclass(slots=True)
class Readout:
    """Rows taken, as pairs of their numbers (n,) and what was extracted of them (n rows), and the faults.

    Together the numbers are each of those given exactly once, in no order.
    """

    taken: list[tuple[Ids, Extracted]] = field(default_factory=list)
    faults: list[BadLine] = field(default_factory=list)

    @classmethod
    def of_none(cls, count: int, reason: str, detail: str) -> Readout:
        """No row of `count` messages, for one reason."""
        return cls(faults=[BadLine(at, reason, detail) for at in range(count)])

    def take(self, ids: Ids, extracted: Extracted) -> None:
        """Keep what was extracted of the rows `ids`."""
        if len(extracted.kept):
            self.taken.append((ids[extracted.kept], extracted))

    def take_all(self, ids: Ids, extracted: Extracted) -> None:
        """Keep what was extracted of the rows `ids`, and why some were refused."""
        self.take(ids, extracted)
        self.faults += [BadLine(int(ids[r.row]), r.reason, r.detail) for r in extracted.refused]


class Parsed(NamedTuple):
    """The rows of lines in order, without those at fault, whose ids count the lines."""

    batch: pa.RecordBatch
    faults: Sequence[BadLine] = ()


def whole(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """A column in one piece."""
    combined: pa.Array[Any] | pa.ChunkedArray[Any] = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


class LineReader(ABC):
    """Reads lines of one format, each of which is a row; which rows are good never depends on their neighbours."""

    def __init__(self, stream: Stream, needs_time: bool, number: int = 0) -> None:
        """`number` is the input's in its query."""
        self.stream = stream
        self.needs_time = needs_time
        self.number = number
        #: adds what the lines' messages bring besides, by the ids of lines
        self.add_headers: AddHeaders | None = None

    def read(self, lines: Sequence[bytes]) -> Readout:
        """Every line either taken or at fault."""
        readout = Readout()
        self._read(np.arange(len(lines)), lines, readout, _SIFTINGS)
        return readout

    @abstractmethod
    def split(self, value: bytes) -> list[bytes]:
        """A message's lines, without blank ones."""

    def split_all(self, values: Sequence[bytes]) -> tuple[Sequence[bytes], Ids]:
        """The lines of all messages, in order, and how many each has, int64 (n,)."""
        split = [self.split(value) for value in values]
        return list(chain.from_iterable(split)), np.fromiter(map(len, split), np.int64, len(split))

    @abstractmethod
    def parse(self, lines: Sequence[bytes]) -> Parsed | None:
        """All lines at once, or None if it isn't sure which row is which line's."""

    @property
    @abstractmethod
    def few(self) -> int:
        """Up to how many lines are read one by one where `parse` refuses them; more are parted and tried again."""

    @abstractmethod
    def read_one_by_one(self, ids: Ids, lines: Sequence[bytes], readout: Readout) -> None:
        """Read lines of which `parse` wasn't sure."""

    @abstractmethod
    def look_again(self, ids: Ids, lines: Sequence[bytes], extracted: Extracted, readout: Readout) -> None:
        """Judge the rows that `extracted` refused."""

    def extract(self, ids: Ids, batch: pa.RecordBatch) -> Extracted:
        """The codes, times and keys of the batch, whose rows are the lines `ids`."""
        whole_rows = batch if self.add_headers is None else self.add_headers(batch, ids)
        return extract(self.stream, whole_rows, self.needs_time, self.number)

    def doubtful(self, lines: Sequence[bytes]) -> Sequence[int]:
        """Where among lines that `parse` refused those stand, ascending, that it probably refused them for.

        They are read one by one; a wrong guess costs time only.
        """
        return ()

    def _read(self, ids: Ids, lines: Sequence[bytes], readout: Readout, siftings: int) -> None:
        """`siftings` is how often doubtful lines are looked for; what is still refused then is halved."""
        if not len(lines):
            return
        parsed = self.parse(lines)
        if parsed is not None:
            self._take(ids, lines, parsed, readout)
        elif len(lines) <= self.few:
            self.read_one_by_one(ids, lines, readout)
        else:
            self._part(ids, lines, readout, siftings)

    def _part(self, ids: Ids, lines: Sequence[bytes], readout: Readout, siftings: int) -> None:
        """Take the doubtful lines out if they are the lesser part, or else halve."""
        half, left = len(lines) // 2, max(0, siftings - 1)
        doubtful = self.doubtful(lines) if siftings else ()
        if 0 < len(doubtful) <= half:
            self.read_one_by_one(ids[doubtful], [lines[at] for at in doubtful], readout)
            rest = np.delete(np.arange(len(lines)), doubtful)
            self._read(ids[rest], [lines[at] for at in rest.tolist()], readout, left)
        else:
            self._read(ids[:half], lines[:half], readout, left)
            self._read(ids[half:], lines[half:], readout, left)

    def _take(self, ids: Ids, lines: Sequence[bytes], parsed: Parsed, readout: Readout) -> None:
        if parsed.faults:
            readout.faults += [fault._replace(id=int(ids[fault.id])) for fault in parsed.faults]
            good = np.delete(np.arange(len(lines)), [fault.id for fault in parsed.faults])
            ids, lines = ids[good], [lines[at] for at in good.tolist()]
        extracted = self.extract(ids, parsed.batch)
        readout.take(ids, extracted)
        self.look_again(ids, lines, extracted, readout)
