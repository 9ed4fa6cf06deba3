"""A PO-Join process: it answers for its own number and, if workers were removed, for abandoned numbers (P11).

Each frame is answered by its own grid, but any process may answer for worker w: the answer follows from the log and the
batches alone, and the sink takes each chunk once. If only rows leave, the rows that stay answer (`stand_in.py`). If
columns change, and a frame arrives with a grid of fewer workers, n, then worker v also watches the numbers w = v,
v + n, v + 2n ... for which earlier frames still wait. Workers that leave in good order answer those frames themselves.
Only if results stand still does v read the log again and answer as w, like a restarted worker. So no frame waits
forever for a worker that is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from spojoin.model import Query
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.grid import Grid, grid_of
from spojoin.protocol.machine import BY_REFERENCE, Action, Machine, ResultPosition, Rewind, Trim, WindowMachine
from spojoin.protocol.topology import Topic
from spojoin.roles.pojoin.machine import PoJoinMachine
from spojoin.wire.records import Barrier, Frame, Record

#: If results stand still this long while frames of a grid of more workers are under way, the missing workers are gone.
#: A worker that leaves in good order needs a fraction of this time.
PATIENCE_MS = 2_000


class MakeWorker(Protocol):
    """Makes the machine that answers for a number; grid: the initial grid, None for the first frame's."""

    def __call__(
        self, query: Query, worker: int, result_position: ResultPosition, grid: Grid | None = None
    ) -> WindowMachine: ...


@dataclass(slots=True)
class Duty:
    """A number for which this process answers; `next_offset`: how far it has read the log.

    goes_ahead: whether it takes frames that aren't in the log yet; a duty that begins late must read the log first
    """

    machine: WindowMachine
    next_offset: int = 0
    goes_ahead: bool = False

    def give_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Give a record to the machine, each record of the log once."""
        if topic is Topic.FRAMES and not (self.goes_ahead and offset == BY_REFERENCE):
            if offset < self.next_offset:
                return
            self.next_offset = offset + 1
        for action in self.machine.on_record(topic, partition, offset, record):
            if isinstance(action, Rewind) and action.topic is Topic.FRAMES:
                self.next_offset = 0
            yield action


class PoJoinWorker(Machine):
    """Worker number `worker`, and temporarily abandoned numbers; `make` makes the machine of a number."""

    def __init__(
        self, query: Query, worker: int, result_position: ResultPosition, make: MakeWorker = PoJoinMachine
    ) -> None:
        self._query = query
        self._make = make
        self._worker = worker
        self._result_position = result_position
        self._reader = LogFollower()
        self._next_offset = 0
        self._grids = GridChanges()
        self._own = Duty(make(query, worker, result_position), goes_ahead=True)
        self._covered: dict[int, Duty] = {}
        self._vacant: dict[int, int] = {}
        self._still_since_ms: int | None = None
        self._done: dict[str, float] = {}

    @property
    def _duties(self) -> list[Duty]:
        return [self._own, *self._covered.values()]

    def wants(self, topic: Topic, partition: int) -> bool:
        """Whether every duty has room. A full duty waits for a batch, which every duty that knows the grid wants.

        A duty that covers a number knows the grid from the start; otherwise a full duty would wait forever.
        """
        return all(duty.machine.wants(topic, partition) for duty in self._duties)

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take a frame or a batch, and evaluate the frames that are ready."""
        if topic is Topic.FRAMES and (offset == BY_REFERENCE or offset >= self._next_offset):
            self._next_offset = max(self._next_offset, offset + 1)
            self._follow_grids(record)
        for duty in self._duties:
            yield from duty.give_record(topic, partition, offset, record)

    def _follow_grids(self, record: Record) -> None:  # P11.5
        if not isinstance(record, Frame | Barrier) or not self._reader.accept(record) or isinstance(record, Barrier):
            return
        left, workers = self._grids.accept_frame(record), self._grids.last.workers
        self._grids.forget_before(self._result_position.frame_id)
        if self._worker < workers and record.frame_id > self._result_position.frame_id:
            mine = [number for number in left if number % workers == self._worker]
            self._vacant.update(dict.fromkeys(mine, record.frame_id))

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Give the duties the time; cover numbers for which apparently no worker answers."""
        if self._still_since_ms is None or not self._vacant:
            self._still_since_ms = now_ms
        elif now_ms - self._still_since_ms >= PATIENCE_MS:
            yield from self._cover_vacant_numbers()
        for duty in self._duties:
            yield from duty.machine.on_time(now_ms)

    def _cover_vacant_numbers(self) -> Iterator[Action]:  # P11.6
        new = self._vacant.keys() - self._covered.keys()
        for number in sorted(new):
            self._covered[number] = Duty(self._make(self._query, number, self._result_position, self._grids.first))
        if new:
            yield Rewind(Topic.FRAMES)
            yield Rewind(Topic.BATCHES)

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Note that results move, so workers answer; numbers whose results are out need no cover."""
        if result_position > self._result_position:
            self._result_position = result_position
            self._still_since_ms = None
        self._grids.forget_before(self._result_position.frame_id)
        self._vacant = {
            number: until for number, until in self._vacant.items() if until > self._result_position.frame_id
        }
        for number in self._covered.keys() - self._vacant.keys():
            self._done = _sum(self._done, self._covered.pop(number).machine.counters())
        return [trim for duty in self._duties for trim in duty.machine.on_result_position(result_position)]

    def is_needed(self) -> bool:
        """Whether present or coming frames wait for this worker's parts."""
        return self._grids.workers_max > self._worker

    def counters(self) -> dict[str, float]:
        """The counters of all duties, finished ones included."""
        total = self._done
        for duty in self._duties:
            total = _sum(total, duty.machine.counters())
        return total

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return sum(duty.machine.state_tuples() for duty in self._duties)

    def state_bytes(self) -> int:
        """Bytes of all held indexes."""
        return sum(duty.machine.state_bytes() for duty in self._duties)


def _sum(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in one.keys() | other.keys()}


class GridChange(NamedTuple):
    """A grid, and the first frame that it answers."""

    frame_id: int
    grid: Grid


class GridChanges:
    """The grids of accepted frames, from the first frame whose results aren't all out."""

    def __init__(self) -> None:
        self._changes: deque[GridChange] = deque()

    @property
    def first(self) -> Grid | None:
        """The grid of the oldest frame under way; None before the first frame."""
        return self._changes[0].grid if self._changes else None

    @property
    def last(self) -> Grid:
        """The grid of the newest frame, of which there must be one."""
        return self._changes[-1].grid

    @property
    def workers_max(self) -> int:
        """The most workers for which a frame under way, or the next frame, waits."""
        return max((change.grid.workers for change in self._changes), default=0)

    def accept_frame(self, frame: Frame) -> range:
        """Take a frame; if its grid has other columns, return the numbers for which only earlier frames wait."""
        grid = grid_of(frame)
        if self._changes and self.last == grid:
            return range(0)
        has_stand_ins = all(change.grid.holds_alike(grid) for change in self._changes)  # P19.11
        self._changes.append(GridChange(frame.frame_id, grid))
        return range(0) if has_stand_ins else range(grid.workers, self.workers_max)

    def forget_before(self, frame_id: int) -> None:
        """Forget frames before this one: their results are out."""
        while len(self._changes) > 1 and self._changes[1].frame_id <= frame_id:
            self._changes.popleft()
