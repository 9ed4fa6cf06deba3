"""Reads many lines of text at once: a fast parser reads all, and a slower one the few that it refuses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spojoin.columns.extract import Extracted, extract
from spojoin.model import Stream
from spojoin.reading.readout import AddHeaders, BadLine, Ids, Readout

#: How often to search doubtful lines: once for malformed lines, once for values of unexpected types.
_SIFTINGS = 2


class Parsed(NamedTuple):
    """The rows of lines in order, without the faulty lines; their ids count the lines."""

    batch: pa.RecordBatch
    faults: Sequence[BadLine] = ()


def one_chunk(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """A column as one array."""
    combined: pa.Array[Any] | pa.ChunkedArray[Any] = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


class LineReader(ABC):
    """Reads lines of one format, each of which is a row; whether a row is valid never depends on its neighbours."""

    def __init__(self, stream: Stream, needs_time: bool, number: int = 0) -> None:
        """number: the input's number in its query."""
        self.stream = stream
        self.needs_time = needs_time
        self.number = number
        #: adds the headers of the lines' messages, by the ids of lines
        self.add_headers: AddHeaders | None = None

    def read(self, lines: Sequence[bytes]) -> Readout:
        """Every line, as a taken row or a fault."""
        readout = Readout()
        self._read(np.arange(len(lines)), lines, readout, _SIFTINGS)
        return readout

    @abstractmethod
    def split(self, value: bytes) -> list[bytes]:
        """The lines of a message, without blank ones."""

    def split_all(self, values: Sequence[bytes]) -> tuple[Sequence[bytes], Ids]:
        """The lines of all messages, in order, and how many each has, int64 (n,)."""
        split = [self.split(value) for value in values]
        return list(chain.from_iterable(split)), np.fromiter(map(len, split), np.int64, len(split))

    @abstractmethod
    def parse(self, lines: Sequence[bytes]) -> Parsed | None:
        """Parse all lines at once; None if it isn't certain which row belongs to which line."""

    @property
    @abstractmethod
    def few(self) -> int:
        """How many refused lines are read one by one at most; more are divided and parsed again."""

    @abstractmethod
    def read_one_by_one(self, ids: Ids, lines: Sequence[bytes], readout: Readout) -> None:
        """Read lines that `parse` refused."""

    @abstractmethod
    def judge_refused(self, ids: Ids, lines: Sequence[bytes], extracted: Extracted, readout: Readout) -> None:
        """Judge the rows that `extracted` refused."""

    def extract(self, ids: Ids, batch: pa.RecordBatch) -> Extracted:
        """The codes, times and keys of the batch, whose rows are the lines `ids`."""
        whole_rows = batch if self.add_headers is None else self.add_headers(batch, ids)
        return extract(self.stream, whole_rows, self.needs_time, self.number)

    def doubtful(self, lines: Sequence[bytes]) -> Sequence[int]:
        """The ascending numbers of the lines because of which `parse` probably refused all lines.

        They are read one by one; a wrong guess only costs time.
        """
        return ()

    def _read(self, ids: Ids, lines: Sequence[bytes], readout: Readout, siftings: int) -> None:
        """Read lines; siftings: how often to search doubtful lines; lines that are refused after that are halved."""
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
        """Read the doubtful lines separately if they are fewer than half; otherwise halve the lines."""
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
        readout.keep_rows(ids, extracted)
        self.judge_refused(ids, lines, extracted, readout)
