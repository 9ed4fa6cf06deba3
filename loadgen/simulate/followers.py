"""The simulator's readers of the log and the results, by the protocol's rules in their shortest form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

from loadgen.simulate import probabilities as odds
from spojoin.protocol.machine import ResultPosition
from spojoin.protocol.result_partitions import WHOLE, ResultPartition
from spojoin.protocol.topology import Topic
from spojoin.wire.records import Barrier, DeadLetter, Frame, Record, Result
from spojoin.wire.result_merge import ResultMerge
from spojoin.wire.results import ResultProgress, ResultSequence, progress, result_messages_rows

#: The most sinks of a world.
SINKS_MAX = max(odds.SINKS)
#: A result's generation, its frame, the positions where it begins and ends, and whether the frame ends with it. Of rows
#: by key the answer and the number in place of positions, or -1 and the partition of a result without rows.
Place = tuple[int, int, int, int, bool]


class _Row(NamedTuple):
    place: tuple[int, int]
    values: dict[str, Any]


class FramesFollower:
    """Keeps the accepted frames: of the current epoch, next in number, built on the previous frame's offsets."""

    def __init__(self) -> None:
        self.accepted: list[Frame] = []
        self.epochs: list[int] = []
        self.first_indexes: tuple[int, ...] = ()
        self.first_seq = 0
        #: the router under whose claim the first frame was written, or the last one that claimed the log before it
        self.first_router = ""
        self._epoch = -1
        self._is_closed = False

    def hear(self, record: Record) -> None:
        """Take the next record of the log."""
        if self._is_closed:
            return
        if isinstance(record, Barrier):
            self._claim(record)
        elif isinstance(record, Frame) and self._counts(record):
            self.accepted.append(record)

    def _claim(self, barrier: Barrier) -> None:
        if barrier.epoch <= self._epoch:
            return
        self._epoch = barrier.epoch
        self._is_closed = barrier.closes
        if not self.accepted:
            self.first_indexes = barrier.first_indexes
            self.first_seq = barrier.first_seq or sum(barrier.first_indexes)
            self.first_router = barrier.router_id

    def _counts(self, frame: Frame) -> bool:
        link, seq = 0, self.first_seq
        if self.accepted:
            last = self.accepted[-1]
            link, seq = last.link, last.first_seq + last.count
        expected = (self._epoch, len(self.accepted), seq, link)
        return (frame.epoch, frame.frame_id, frame.first_seq, frame.previous_link) == expected


class ResultsFollower:
    """Keeps the results that continue where the earlier ones of their partition ended.

    key: the column whose values divide the rows, if they do
    owed: by partition, what it lacks
    strays: keys whose rows are in two partitions
    gaps: where results should have continued, and where the next ones began instead
    """

    def __init__(self, partitions: Sequence[ResultPartition] = (WHOLE,), key: str | None = None) -> None:
        self._partitions = partitions
        self._key = key
        self._homes: dict[str, int] = {}
        self.strays: list[str] = []
        self.owed = [partition.first for partition in partitions]
        self._rows: dict[int, list[_Row]] = {}
        self.repeated = 0
        self.gaps: list[tuple[ResultPosition, ResultPosition]] = []

    @property
    def result_position(self) -> ResultPosition:
        """How far results are out in all partitions."""
        return min(self.owed)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, merged by frame; if their keys divide them, by answer and number."""
        return [row.values for _, rows in sorted(self._rows.items()) for row in sorted(rows, key=lambda row: row.place)]

    def hear(self, record: Record, partition: int = 0) -> None:
        """Take the next record of a partition of the results."""
        if not isinstance(record, Result):
            raise AssertionError(f"results hold a {type(record).__name__}")
        begins, owed = ResultPosition(record.frame_id, record.begin), self.owed[partition]
        if begins != owed:
            self.repeated += 1
            self.gaps += [(owed, begins)] if begins > owed else []
            return
        self._keep(record, partition)
        following = ResultPosition(record.frame_id + self._partitions[partition].step, 0)
        self.owed[partition] = following if record.is_last else ResultPosition(record.frame_id, record.end)

    def _keep(self, record: Result, partition: int) -> None:
        rows = record.rows.to_pylist()
        places: Iterable[tuple[int, int]] = repeat((0, 0))
        if record.numbers is not None and record.probes is not None and self._key is not None:
            places = zip(record.probes.tolist(), record.numbers.tolist(), strict=True)
            # the messages' keys are texts, in which 0.0 is not -0.0
            keys = [repr(row[self._key]) for row in rows if row[self._key] is not None]
            self.strays += [key for key in keys if self._homes.setdefault(key, partition) != partition]
        self._rows.setdefault(record.frame_id, []).extend(map(_Row, places, rows))


class OrderedReader:
    """Reads all partitions of the results as the product's readers do; `places` holds what it gave, in order."""

    def __init__(self) -> None:
        self._sequences = [ResultSequence() for _ in range(SINKS_MAX)]
        self._merge = ResultMerge[Place](SINKS_MAX, lambda _: True)
        self.places: list[Place] = []

    def hear(self, record: Record, partition: int) -> None:
        """Take the next record of a partition."""
        if not isinstance(record, Result):
            raise AssertionError(f"results hold a {type(record).__name__}")
        for found in _progress(record):
            if record.numbers is None:
                place = record.begin, record.end
            else:
                place = (-1, partition) if found.seq is None else found.place
            if self._sequences[partition].accepts(record.begin, found):
                self._merge.take(partition, found, (record.generation, record.frame_id, *place, found.is_last))
        self.places += self._merge.in_order()


def _progress(result: Result) -> Iterator[ResultProgress]:
    """The progress of the messages of a result: one, or if keys divide the rows, one for each row."""
    if result.numbers is None:
        yield ResultProgress(result.frame_id, result.end, result.is_last, None, result.generation, sinks=result.sinks)
        return
    values = [b""] * result.rows.num_rows
    yield from (progress(message.headers) for message in result_messages_rows(result, values, b""))


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The output of a run, and the memory and records kept at rest.

    places: the results in the order in which the product's readers give them
    dead_lost: dead letters that were pending when their process died.
    faults: the injected faults, in words.
    retained: records by topic; frames_retained, batch_tuples: of these, the frames and batches that count.
    state_tuples: tuples held by each process, by its name.
    """

    frames: FramesFollower
    results: ResultsFollower
    places: list[Place]
    dead: list[DeadLetter]
    dead_lost: list[DeadLetter]
    faults: list[str]
    retained: dict[Topic, int]
    frames_retained: int
    batch_tuples: int
    state_tuples: dict[str, int]
    steps: int
    came_to_rest: bool
