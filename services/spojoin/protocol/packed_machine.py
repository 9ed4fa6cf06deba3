"""Several roles in one process: a machine made of their machines, which pass records to each other by reference.

Each member has its own queues, so a waiting member holds up no other, as if each were a process. A record goes to a
member at once if its queues are empty, so a frame's pairs are never all in memory together. Records go to the log as
they would from separate processes; `protocol.packing` decides for which topics.

Services run a pack over Kafka, the simulator over a log with faults, and `embedded.engine` over a log in memory.

A frame that this process writes goes at once to the members that evaluate it, while it is still on its way into the
log, and so does a batch. Such a frame may never arrive: if another router has claimed the log, or the append failed,
this process's life ends, and its members' state with it. So records that follow from such frames leave the process only
when the frame has been read back (rule P14). The router and the sink take frames only from the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from spojoin.protocol.topology import ROLES, TOPOLOGY, Edge, Role, Topic
from spojoin.wire.records import Barrier, Frame, Part, Partial, Record, Rows

#: How many records of one partition may wait for a member before reading of the log pauses.
WAITING_MAX = 512

#: The roles that may get frames before these are in the log: their answers follow from frames and batches alone.
EVALUATING = tuple(entry.role for entry in ROLES if entry.evaluates_ahead)  # P14.4

_READS = {edge.role: frozenset(edge.reads) for edge in TOPOLOGY}

Source = tuple[Topic, int]


@dataclass(frozen=True, slots=True)
class Fellow:
    """A role's machine in a process.

    goes_ahead: whether it gets frames and batches before they are in the log
    reads: the topics that it reads; by default all of its role
    """

    role: Role
    machine: Machine
    goes_ahead: bool = False
    reads: frozenset[Topic] | None = None


@dataclass(slots=True, eq=False)
class PackMember:
    """A fellow with its waiting records and their offsets, by source, and how far each source was given to it."""

    fellow: Fellow
    waiting: dict[Source, deque[tuple[int, Record]]] = field(default_factory=dict)
    given: dict[Source, int] = field(default_factory=dict)

    def reads(self, topic: Topic) -> bool:
        own = self.fellow.reads
        return topic in (_READS[self.fellow.role] if own is None else own)

    def is_free_for(self, source: Source) -> bool:
        """Whether no record waits, and a record of the source is wanted."""
        return not any(self.waiting.values()) and self.fellow.machine.wants(*source)

    def queue_record(self, source: Source, offset: int, record: Record) -> None:
        """Queue a record unless it was given before: another member may have had the log read again."""
        if offset != BY_REFERENCE:
            if offset < self.given.get(source, 0):  # P14.5
                return
            self.given[source] = offset + 1
        # A router that has claimed the log never wants a batch again.
        if self.fellow.role is not Role.ROUTER or self.fellow.machine.wants(*source):
            self.waiting.setdefault(source, deque()).append((offset, record))

    def forget(self, topic: Topic) -> None:
        """Forget all records of a topic, which will be read again from its beginning."""
        for known in (self.waiting, self.given):
            for source in [source for source in known if source[0] is topic]:
                del known[source]


class _Held(NamedTuple):
    """A record that follows from frames up to `frame_id`, which aren't all in the log yet."""

    frame_id: int
    emit: Emit


class Pack(Machine):
    """Machines that share a process. `edge` is what the process reads and writes in the log.

    inside: topics whose records members always give each other by reference
    listener: called with every record that a member emits, except frames, whether or not it leaves the process
    """

    def __init__(self, fellows: Sequence[Fellow], edge: Edge, inside: Collection[Topic] = DERIVED) -> None:
        self._members = [PackMember(fellow) for fellow in fellows]
        self._edge = edge
        self._inside = inside
        self._has_router = any(fellow.role is Role.ROUTER for fellow in fellows)
        self._reader = LogFollower()
        self._ahead = -1
        self._held: deque[_Held] = deque()
        self.listener: Callable[[Record], None] | None = None

    @property
    def fellows(self) -> list[Fellow]:
        """The machines, in the order of the data flow."""
        return [member.fellow for member in self._members]

    # -- records

    def wants(self, topic: Topic, partition: int) -> bool:
        """Whether no member's queue is full; always for the log if its router is in this process."""
        if topic is Topic.FRAMES and self._has_router:
            return True
        waiting = (member.waiting.get((topic, partition), ()) for member in self._members)
        return all(len(queue) < WAITING_MAX for queue in waiting)

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Give a record of the log to each member that reads its topic, and process all that follows."""
        for member in self._members:
            if member.reads(topic):
                self.queue_record(member, (topic, partition), offset, record)
        if isinstance(record, Frame | Barrier) and self._reader.accept(record):
            yield from self._release()
        yield from self.give_waiting_records()

    def _release(self) -> Iterator[Action]:  # P14.3
        """Release the records that follow from frames that are in the log."""
        while self._held and self._held[0].frame_id < self._reader.next_frame:
            yield self._held.popleft().emit

    def queue_record(self, member: PackMember, source: Source, offset: int, record: Record) -> None:
        """Queue a record for the member's turn."""
        member.queue_record(source, offset, record)

    def give_record(self, member: PackMember, source: Source, offset: int, record: Record) -> Iterator[Action]:
        """Give a record to the member, and carry out its actions."""
        yield from self.carry_out(member, member.fellow.machine.on_record(*source, offset, record))

    def give_waiting_records(self) -> Iterator[Action]:
        """Give members their waiting records, in turn, until none wants any more."""
        has_moved = True
        while has_moved:
            has_moved = False
            for member in self._members:
                for source in list(member.waiting):
                    # A rewind by the member drops its waiting records.
                    while (queue := member.waiting.get(source)) and member.fellow.machine.wants(*source):
                        offset, record = queue.popleft()
                        has_moved = True
                        yield from self.give_record(member, source, offset, record)

    def carry_out(self, member: PackMember, actions: Iterator[Action]) -> Iterator[Action]:
        """Carry out a member's actions that stay in this process; yield the others."""
        for action in actions:
            if isinstance(action, Rewind):
                member.forget(action.topic)
            if not isinstance(action, Emit):
                yield action
            elif isinstance(action.record, Frame):
                yield action  # into the log first, before the records that follow from it
                self._ahead = action.record.frame_id
                self._go_ahead(action)
            else:
                yield from self._hand_on(member, action)

    def _go_ahead(self, frame: Emit) -> None:  # P14.2
        for member in self._members:
            if member.fellow.goes_ahead:
                self.queue_record(member, (frame.topic, frame.partition), BY_REFERENCE, frame.record)

    def _hand_on(self, member: PackMember, action: Emit) -> Iterator[Action]:
        if self.listener is not None:
            self.listener(action.record)
        source = action.topic, action.partition
        for reader in self._members:
            if reader.reads(action.topic) and (action.topic in self._inside or self._is_ahead(reader, action.topic)):
                if reader.is_free_for(source):
                    yield from self.give_record(reader, source, BY_REFERENCE, action.record)
                else:
                    self.queue_record(reader, source, BY_REFERENCE, action.record)
        if action.topic not in self._edge.writes:  # P14.1
            return
        follows_from = self._newest_behind(member, action.record)
        if follows_from >= 0 and (self._held or follows_from >= self._reader.next_frame):
            self._held.append(_Held(follows_from, action))
        else:
            yield action

    def _is_ahead(self, reader: PackMember, topic: Topic) -> bool:
        """Whether a reader gets a batch that was made here before the batch is in its topic."""
        return topic is Topic.BATCHES and reader.fellow.goes_ahead

    def _newest_behind(self, member: PackMember, record: Record) -> int:
        """The newest frame, maybe not yet in the log, that a record may follow from; -1 if it follows from the log."""
        if isinstance(record, Part | Partial):
            return record.frame_id
        return self._ahead if member.fellow.role in (Role.MUTABLE, Role.PERMUTATION) else -1

    # -- time and results

    def on_caught_up(self) -> Iterator[Action]:
        """Let all members know that they have read the log."""
        for member in self._members:
            yield from self.carry_out(member, member.fellow.machine.on_caught_up())
        yield from self.give_waiting_records()

    def on_chosen(self) -> Iterator[Action]:
        """Let all members know that this process speaks."""
        for member in self._members:
            yield from self.carry_out(member, member.fellow.machine.on_chosen())
        yield from self.give_waiting_records()

    def on_time(self, now_ms: int) -> Iterator[Action]:
        """Give every member the time."""
        for member in self._members:
            yield from self.carry_out(member, member.fellow.machine.on_time(now_ms))
        yield from self.give_waiting_records()

    def on_result_position(self, result_position: ResultPosition) -> list[Trim]:
        """Give every member the result position; return only trims of topics in the log, not of those by reference."""
        trims = [trim for fellow in self.fellows for trim in fellow.machine.on_result_position(result_position)]
        return [trim for trim in trims if trim.topic in self._edge.trims]

    # -- reports

    def is_needed(self) -> bool:
        """Whether other processes wait for a worker here (P11); never if the router is here, since it ends as well."""
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
        """Bytes held by all indexes."""
        return sum(fellow.machine.state_bytes() for fellow in self.fellows)


class InputPack(Pack, InputThrough):
    """A pack with the router, which takes the users' rows."""

    def __init__(self, fellows: Sequence[Fellow], edge: Edge, inside: Collection[Topic] = DERIVED) -> None:
        super().__init__(fellows, edge, inside)
        self._routing = next(member for member in self._members if member.fellow.role is Role.ROUTER)
        machine = self._routing.fellow.machine
        if not isinstance(machine, InputMachine):
            raise TypeError(f"the router's machine is a {type(machine).__name__}, which takes no rows")
        self._inputs = machine

    def on_rows(self, stream: int, partition: int, rows: Rows) -> Iterator[Action]:
        """Take rows of one input, and process all that follows from them."""
        yield from self.carry_out(self._routing, self._inputs.on_rows(stream, partition, rows))
        yield from self.give_waiting_records()

    def on_table(self, version: TableRows) -> Iterator[Action]:
        """Take a version of the query's table, and process all that follows from it."""
        yield from self.carry_out(self._routing, self._inputs.on_table(version))
        yield from self.give_waiting_records()


def pack_of(fellows: Sequence[Fellow], edge: Edge) -> Pack:
    """The machine of a process of several roles."""
    has_router = any(fellow.role is Role.ROUTER for fellow in fellows)
    return (InputPack if has_router else Pack)(fellows, edge)
