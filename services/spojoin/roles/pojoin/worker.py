"""A PO-Join process: it answers for its own number and, where workers were taken away, for numbers left behind (P11).

A frame is answered by its own worker count, whichever process does it: what worker w answers to a frame follows from
the log and the batches alone, and the sink takes each chunk once. So when a frame arrives with a smaller worker count,
n, worker v of them also watches the numbers w = v, v + n, v + 2n ... that earlier frames still wait for. Workers that
leave in good order answer those frames themselves; only where results stand still does v read the log again and answer
as w, like a restarted worker. So no frame waits for ever for a worker that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from spojoin.model import Query
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.machine import BY_REFERENCE, Action, Machine, ResultPosition, Rewind, Trim, WindowMachine
from spojoin.protocol.topology import Topic
from spojoin.roles.pojoin.machine import PoJoinMachine
from spojoin.roles.pojoin.worker_counts import WorkerCounts
from spojoin.wire.records import Barrier, Frame, Record

#: Results that stand still this long, with frames of a larger worker count under way, mean that their workers are gone.
#: A worker that leaves in good order needs a fraction of it.
PATIENCE_MS = 2_000


class Make(Protocol):
    """Makes the machine that answers for a number; `workers` is the count to start with, 0 for the first frame's."""

    def __call__(self, query: Query, worker: int, result_position: ResultPosition, workers: int = 0) -> WindowMachine:
        """The machine, empty."""
        ...


@dataclass(slots=True)
class Duty:
    """A number that this process answers for; `next_offset` is how far it has read the log.

    goes_ahead: whether it takes frames that aren't in the log yet; one that begins late must read the log first
    """

    machine: WindowMachine
    next_offset: int = 0
    goes_ahead: bool = False

    def take(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
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
    """Worker number `worker`, and for a while abandoned numbers too; `make` makes the machine of a number."""

    def __init__(self, query: Query, worker: int, result_position: ResultPosition, make: Make = PoJoinMachine) -> None:
        self._query = query
        self._make = make
        self._worker = worker
        self._result_position = result_position
        self._reader = LogFollower()
        self._next_offset = 0
        self._counts = WorkerCounts()
        self._own = Duty(make(query, worker, result_position), goes_ahead=True)
        self._covered: dict[int, Duty] = {}
        self._vacant: dict[int, int] = {}
        self._still_since_ms: int | None = None
        self._done: dict[str, float] = {}

    @property
    def _duties(self) -> list[Duty]:
        return [self._own, *self._covered.values()]

    def wants(self, topic: Topic, partition: int) -> bool:
        """What every duty has room for. A full duty waits for a batch; every duty that knows a count wants batches.

        A duty that covers a number knows the count from the start: else a full duty would wait for ever.
        """
        return all(duty.machine.wants(topic, partition) for duty in self._duties)

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Take a frame or a batch, and evaluate what can be."""
        if topic is Topic.FRAMES and (offset == BY_REFERENCE or offset >= self._next_offset):
            self._next_offset = max(self._next_offset, offset + 1)
            self._follow(record)
        for duty in self._duties:
            yield from duty.take(topic, partition, offset, record)

    def _follow(self, record: Record) -> None:
        if not isinstance(record, Frame | Barrier) or not self._reader.accept(record) or isinstance(record, Barrier):
            return
        left = self._counts.note(record)
        self._counts.forget_before(self._result_position.frame_id)
        if self._worker < record.workers and record.frame_id > self._result_position.frame_id:
            mine = [number for number in left if number % record.workers == self._worker]
            self._vacant.update(dict.fromkeys(mine, record.frame_id))

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Let the duties go on; take up numbers that nobody seems to answer."""
        if self._still_since_ms is None or not self._vacant:
            self._still_since_ms = now_ms
        elif now_ms - self._still_since_ms >= PATIENCE_MS:
            yield from self._cover()
        for duty in self._duties:
            yield from duty.machine.on_time(now_ms)

    def _cover(self) -> Iterator[Action]:
        new = self._vacant.keys() - self._covered.keys()
        for number in sorted(new):
            self._covered[number] = Duty(self._make(self._query, number, self._result_position, self._counts.first))
        if new:
            yield Rewind(Topic.FRAMES)
            yield Rewind(Topic.BATCHES)

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Results move: somebody answers. Numbers whose results are out need no cover."""
        if result_position > self._result_position:
            self._result_position = result_position
            self._still_since_ms = None
        self._counts.forget_before(self._result_position.frame_id)
        self._vacant = {
            number: until for number, until in self._vacant.items() if until > self._result_position.frame_id
        }
        for number in self._covered.keys() - self._vacant.keys():
            self._done = _sum(self._done, self._covered.pop(number).machine.counters())
        return [trim for duty in self._duties for trim in duty.machine.on_result_position(result_position)]

    def is_needed(self) -> bool:
        """Whether frames under way, or those to come, wait for this worker's parts."""
        return self._counts.largest > self._worker

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
        """Bytes of all indexes held."""
        return sum(duty.machine.state_bytes() for duty in self._duties)


def _sum(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in one.keys() | other.keys()}
