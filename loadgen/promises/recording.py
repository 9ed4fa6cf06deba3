"""A run in this process whose records stand for those of a release: what each of its topics holds."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from loadgen.promises.serving import MESSAGE_ROWS, arrow_messages
from spojoin.embedded.engine import Engine
from spojoin.evaluation.interface import RecordObserver
from spojoin.model import Query
from spojoin.protocol.generations import Beginning
from spojoin.protocol.grid import Grid
from spojoin.protocol.packing import ANSWERER_NAME, APART
from spojoin.protocol.topology import Topic, mutable_partition
from spojoin.query.fingerprint import fingerprint
from spojoin.query.load import parse_query
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from spojoin.wire.codec import encode
from spojoin.wire.records import Batch, Frame, Part, Partial, Record


class Release(NamedTuple):
    """The workers of a release, how many other services it has, and which roles share a process."""

    grid: Grid
    logical_ands: int = 1
    sinks: int = 1
    packing: str = APART
    intakes: int = 0

    def __str__(self) -> str:
        counts = f"{self.logical_ands}-{self.sinks}-{self.intakes}"
        return f"{self.grid.rows}x{self.grid.columns}-{counts}-{self.packing}"

    @property
    def named(self) -> str:
        """What of it grows, in words."""
        rows = self.grid.rows
        ending = "s" if rows > 1 else ""
        return f"{rows} answerer{ending}" if self.packing == ANSWERER_NAME else f"{rows} row{ending} of workers"

    @property
    def with_answerers(self) -> Release:
        """The same rows as answerers, which have the logical ANDs."""
        return self._replace(packing=ANSWERER_NAME, logical_ands=1)

    @property
    def settings(self) -> dict[str, str]:
        """The settings of all services that divide the work so."""
        return {
            "columns": str(self.grid.columns),
            "logical_ands": str(self.logical_ands),
            "sinks": str(self.sinks),
            "intakes": str(self.intakes),
        }

    @property
    def mutable_reporters(self) -> int:
        """How many services report the mutable part in turn."""
        return self.logical_ands if self.packing == APART else self.grid.workers


@dataclass(frozen=True, slots=True)
class ScaleWork:
    """A query and the rows of its one input, the first `before` of which are read before anything is measured.

    name: in file names and in Kafka's names
    text: makes the query file from the query's name
    check: raises AssertionError if some of these results aren't those that a scan finds
    messages: makes messages of rows
    """

    name: str
    text: Callable[[str], str]
    rows: pa.Table
    before: int
    check: Callable[[pa.Table], None]
    messages: Callable[[pa.Table], Iterator[bytes]] = arrow_messages

    def query(self, name: str = "bench") -> Query:
        """The query under this name."""
        return parse_query(self.text(name))


class Written(NamedTuple):
    """A record of the run: its partition, and its bytes."""

    partition: int
    value: bytes


@dataclass(slots=True)
class Recording(RecordObserver):
    """All records of a run by topic, in order; `before` is how many each topic had when measuring began."""

    records: dict[Topic, list[Record]] = field(default_factory=lambda: defaultdict(list))
    before: dict[Topic, int] = field(default_factory=dict)

    def begun(self, record: Record) -> None:
        self.records[Topic.FRAMES].append(record)

    def written(self, topic: Topic, record: Record) -> None:
        if topic is not Topic.FRAMES:
            self.records[topic].append(record)

    def mark(self) -> None:
        """Note that measuring begins."""
        self.before = {topic: len(records) for topic, records in self.records.items()}

    def part_of(self, topic: Topic, *, is_measured: bool) -> list[Record]:
        """The records of a topic since measuring began, or those before."""
        before = self.before.get(topic, 0)
        return self.records[topic][before:] if is_measured else self.records[topic][:before]

    def frames(self, *, is_measured: bool) -> list[Frame]:
        """The frames since measuring began, or those before."""
        return [each for each in self.part_of(Topic.FRAMES, is_measured=is_measured) if isinstance(each, Frame)]

    @property
    def measured(self) -> int:
        """The rows of the frames since measuring began."""
        return sum(frame.count for frame in self.frames(is_measured=True))


def recorded(work: ScaleWork) -> Recording:
    """A run over all rows of a work."""
    query, run = work.query(), Recording()
    config = RouterConfig("recorded", credits_frames=UNLIMITED)
    engine = Engine(query, config, observe=lambda *_: run, beginning=Beginning(fingerprint=fingerprint(query)))
    for piece in (work.rows[: work.before], work.rows[work.before :]):
        run.mark()
        for batch in piece.to_batches(MESSAGE_ROWS):
            deque(engine.feed(0, batch), 0)
        deque(engine.flush(), 0)
    engine.close()
    return run


def as_written(record: Record, release: Release) -> Written:
    """A record of the run as a release has it."""
    grid = release.grid
    if isinstance(record, Frame):
        frame = replace(record, workers=grid.workers, columns=grid.columns, columns_by_key=grid.by_key)
        return Written(0, encode(frame))
    if isinstance(record, Partial):
        return Written(record.predicate, encode(record))
    if isinstance(record, Batch):
        return Written(record.stream, encode(record))
    if isinstance(record, Part):
        row, reporter = record.frame_id % grid.rows, record.frame_id % release.mutable_reporters
        partition = 1 + row if record.part else mutable_partition(reporter, grid.workers)
        return Written(partition, encode(record))
    return Written(0, encode(record))
