"""Several roles in one process: a machine made of their machines, which pass records to each other by reference.

Each member has queues of its own, so that one that waits holds up no other, as if each were a process. What goes to the
log leaves as it would from the members alone; `protocol.packing` says which topics that is.

A frame that this process writes is given to the members that evaluate it at once, while it is on its way into the log,
and so is a batch. A frame may never arrive: then another router has claimed the log, or the append failed, and this
process's life ends with all that its members know. So what members make of such frames leaves the process only when the
frame has been read back (rule P14). The router and the sink take frames from the log alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.machine import (
    BY_REFERENCE,
    Action,
    Emit,
    InputMachine,
    InputThrough,
    Leaver,
    Machine,
    ResultPosition,
    Rewind,
    TableRows,
    Trim,
)
from spojoin.protocol.packing import DERIVED
from spojoin.protocol.topology import TOPOLOGY, Edge, Role, Topic
from spojoin.wire.records import Barrier, Frame, Part, Partial, Record, Rows

#: Records of one partition that may wait for a member before the log isn't read on.
WAITING_MAX = 512

#: The roles that may be given frames before they are in the log: what they say of one follows from frames and batches.
EVALUATING = (Role.MUTABLE, Role.LOGICAL_AND, Role.POJOIN)

_READS = {edge.role: frozenset(edge.reads) for edge in TOPOLOGY}

Source = tuple[Topic, int]


@dataclass(frozen=True, slots=True)
class Fellow:
    """A role's machine in a process; `goes_ahead`: it is given frames and batches before they are in the log."""

    role: Role
    machine: Machine
    goes_ahead: bool = False


@dataclass(slots=True, eq=False)
class _Member:
    """A fellow with what waits for it: records with their offsets, by source, and how far each source was given."""

    fellow: Fellow
    waiting: dict[Source, deque[tuple[int, Record]]] = field(default_factory=dict)
    given: dict[Source, int] = field(default_factory=dict)

    def reads(self, topic: Topic) -> bool:
        return topic in _READS[self.fellow.role]

    def put(self, source: Source, offset: int, record: Record) -> None:
        """Queue a record, once: another member may have had the log read again."""
        if offset != BY_REFERENCE:
            if offset < self.given.get(source, 0):
                return
            self.given[source] = offset + 1
        # A router that has claimed the log wants no batch any more, ever.
        if self.fellow.role is not Role.ROUTER or self.fellow.machine.wants(*source):
            self.waiting.setdefault(source, deque()).append((offset, record))

    def forget(self, topic: Topic) -> None:
        """The topic comes again from its beginning."""
        for known in (self.waiting, self.given):
            for source in [source for source in known if source[0] is topic]:
                del known[source]


class _Held(NamedTuple):
    """What follows from frames up to `frame_id`, which aren't all in the log yet."""

    frame_id: int
    emit: Emit


class Pack(Machine):
    """Machines that share a process. `edge` is what the process reads and writes in the log.

    listener: told of every record but frames that a member emits, whether it leaves the process or not
    """

    def __init__(self, fellows: Sequence[Fellow], edge: Edge) -> None:
        self._members = [_Member(fellow) for fellow in fellows]
        self._edge = edge
        self._has_router = any(fellow.role is Role.ROUTER for fellow in fellows)
        self._reader = LogFollower()
        self._ahead = -1
        self._held: deque[_Held] = deque()
        self.listener: Callable[[Record], None] | None = None

    @property
    def fellows(self) -> list[Fellow]:
        """The machines, in the data's way."""
        return [member.fellow for member in self._members]

    # -- records

    def wants(self, topic: Topic, partition: int) -> bool:
        """Whether no member's queue is full; the log is read on always where its router is here."""
        if topic is Topic.FRAMES and self._has_router:
            return True
        waiting = (member.waiting.get((topic, partition), ()) for member in self._members)
        return all(len(queue) < WAITING_MAX for queue in waiting)

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Give a record of the log to each member that reads its topic, and go on until nothing moves."""
        for member in self._members:
            if member.reads(topic):
                member.put((topic, partition), offset, record)
        if isinstance(record, Frame | Barrier) and self._reader.accept(record):
            yield from self._release()
        yield from self._turn()

    def _release(self) -> Iterator[Action]:
        """P14: what follows from frames that are in the log may leave."""
        while self._held and self._held[0].frame_id < self._reader.next_frame:
            yield self._held.popleft().emit

    def _turn(self) -> Iterator[Action]:
        """Give members what waits for them, in turn, until none wants any more."""
        has_moved = True
        while has_moved:
            has_moved = False
            for member in self._members:
                for source in list(member.waiting):
                    # What a member has rewound waits no more.
                    while (queue := member.waiting.get(source)) and member.fellow.machine.wants(*source):
                        offset, record = queue.popleft()
                        has_moved = True
                        yield from self._passed(member, member.fellow.machine.on_record(*source, offset, record))

    def _passed(self, member: _Member, actions: Iterator[Action]) -> Iterator[Action]:
        """Carry out a member's actions as far as they stay here; yields the others."""
        for action in actions:
            if isinstance(action, Rewind):
                member.forget(action.topic)
            if not isinstance(action, Emit):
                yield action
            elif isinstance(action.record, Frame):
                yield action  # into the log first: what follows from it comes behind it
                self._ahead = action.record.frame_id
                self._go_ahead(action)
            else:
                yield from self._handed_on(member, action)

    def _go_ahead(self, frame: Emit) -> None:
        for member in self._members:
            if member.fellow.goes_ahead:
                member.put((frame.topic, frame.partition), BY_REFERENCE, frame.record)

    def _handed_on(self, member: _Member, action: Emit) -> Iterator[Action]:
        if self.listener is not None:
            self.listener(action.record)
        for reader in self._members:
            if reader.reads(action.topic) and (action.topic in DERIVED or self._is_ahead(reader, action.topic)):
                reader.put((action.topic, action.partition), BY_REFERENCE, action.record)
        if action.topic not in self._edge.writes:
            return
        follows_from = self._newest_behind(member, action.record)
        if follows_from >= 0 and (self._held or follows_from >= self._reader.next_frame):
            self._held.append(_Held(follows_from, action))
        else:
            yield action

    def _is_ahead(self, reader: _Member, topic: Topic) -> bool:
        """Whether a reader takes a batch that was made here before it is in its topic."""
        return topic is Topic.BATCHES and reader.fellow.goes_ahead

    def _newest_behind(self, member: _Member, record: Record) -> int:
        """The newest frame that a record may follow from without the log: -1 where it follows from the log alone."""
        if isinstance(record, Part | Partial):
            return record.frame_id
        return self._ahead if member.fellow.role in (Role.MUTABLE, Role.PERMUTATION) else -1

    # -- time and results

    def on_caught_up(self) -> Iterator[Action]:
        """Every member has everything that the log held."""
        for member in self._members:
            yield from self._passed(member, member.fellow.machine.on_caught_up())
        yield from self._turn()

    def on_chosen(self) -> Iterator[Action]:
        """This process speaks."""
        for member in self._members:
            yield from self._passed(member, member.fellow.machine.on_chosen())
        yield from self._turn()

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Tell every member the time."""
        for member in self._members:
            yield from self._passed(member, member.fellow.machine.on_time(now_ms))
        yield from self._turn()

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Tell every member; trims of topics that pass by reference have no log to trim."""
        trims = [trim for fellow in self.fellows for trim in fellow.machine.on_result_position(result_position)]
        return [trim for trim in trims if trim.topic in self._edge.trims]

    # -- reports

    def is_needed(self) -> bool:
        """Whether services elsewhere wait for a worker here (P11); where the router is here, it ends as well."""
        machines = (fellow.machine for fellow in self.fellows)
        return not self._has_router and any(isinstance(each, Leaver) and each.is_needed() for each in machines)

    def counters(self) -> Mapping[str, float]:
        """What all members have done, by name."""
        total: dict[str, float] = {}
        for fellow in self.fellows:
            for name, value in fellow.machine.counters().items():
                total[name] = total.get(name, 0.0) + value
        return total

    def state_tuples(self) -> int:
        """Tuples held in memory by all members."""
        return sum(fellow.machine.state_tuples() for fellow in self.fellows)

    def state_bytes(self) -> int:
        """Bytes of all indexes."""
        return sum(fellow.machine.state_bytes() for fellow in self.fellows)


class InputPack(Pack, InputThrough):
    """A pack with the router: it takes the users' rows."""

    def __init__(self, fellows: Sequence[Fellow], edge: Edge) -> None:
        super().__init__(fellows, edge)
        self._routing = next(member for member in self._members if member.fellow.role is Role.ROUTER)
        machine = self._routing.fellow.machine
        if not isinstance(machine, InputMachine):
            raise TypeError(f"the router's machine is a {type(machine).__name__}, which takes no rows")
        self._inputs = machine

    def on_rows(self, stream: int, partition: int, rows: Rows) -> Iterator[Action]:
        """Take rows of one input, and do all that follows from them."""
        yield from self._passed(self._routing, self._inputs.on_rows(stream, partition, rows))
        yield from self._turn()

    def on_table(self, version: TableRows) -> Iterator[Action]:
        """Take a version of the query's table, and do all that follows from it."""
        yield from self._passed(self._routing, self._inputs.on_table(version))
        yield from self._turn()


def pack_of(fellows: Sequence[Fellow], edge: Edge) -> Pack:
    """The machine of a process of several roles."""
    has_router = any(fellow.role is Role.ROUTER for fellow in fellows)
    return (InputPack if has_router else Pack)(fellows, edge)
