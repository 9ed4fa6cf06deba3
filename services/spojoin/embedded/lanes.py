"""A pack in which some members have a lane: a thread in which they run while the caller goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from spojoin.evaluation.interface import EvaluationMachines, RecordObserver
from spojoin.protocol.frame_evaluation import MUTABLE_PART
from spojoin.protocol.machine import Action, Emit, Machine
from spojoin.protocol.packed_machine import Fellow, InputPack, PackMember, Source
from spojoin.protocol.topology import Edge, Role, Topic
from spojoin.threads import Lane, Threads
from spojoin.wire.records import Frame, Record

#: How many records may wait in lanes before more are added; a merge of nodes takes as long as several frames.
LANES_AHEAD = 24

#: How many records from a machine in a lane may wait to be carried out; each may hold as many partners as a chunk.
RESULTS_AHEAD = 4

#: A frame with at most this many rows is evaluated in the caller's thread if nothing else waits.
LITTLE_ROWS = 512

#: The topics of the records that pass between machines of one process.
INSIDE = frozenset({Topic.PLAN, Topic.RUNS, Topic.PARTIALS, Topic.BATCHES, Topic.MATCHES})

#: Applied to each record that passes from one machine to another.
Transport = Callable[[Record], Record]


class LanedPack(InputPack):
    """All machines of a query in one process.

    observer: sees each record; transport: changes records on their way, if given
    """

    def __init__(
        self,
        fellows: Sequence[Fellow],
        edge: Edge,
        threads: Threads,
        evaluation: EvaluationMachines,
        observer: RecordObserver,
        transport: Transport | None,
    ) -> None:
        super().__init__(fellows, edge, INSIDE)
        self._threads = threads
        self._observer = observer
        self._transport = transport
        self._parts: dict[Machine, int] = {machine: 1 + part for part, machine in enumerate(evaluation.searching)}
        self._sink = next(member.fellow.machine for member in self._members if member.fellow.role is Role.SINK)
        self._lanes: Mapping[Machine, Lane[Action]] = {
            machine: threads.lane(RESULTS_AHEAD) for machine in evaluation.apart[: threads.threads - 1]
        }
        self._laned = [member for member in self._members if member.fellow.machine in self._lanes]

    def act_as_router(self, actions: Iterator[Action]) -> Iterator[Action]:
        """Carry out actions of the router, and all that follows from them."""
        yield from self.carry_out(self._routing, actions)
        yield from self.give_waiting_records()

    def count_readers(self, topic: Topic) -> int:
        """How many machines read a topic."""
        return sum(member.reads(topic) for member in self._members)

    def queue_record(self, member: PackMember, source: Source, offset: int, record: Record) -> None:
        """Queue a record: in the member's lane, or with the records that wait their turn."""
        lane = self._lane_for(member, record)
        if lane is None or any(member.waiting.values()):
            super().queue_record(member, source, offset, record)
        else:
            lane.add(self._acts(member, source, offset, record))

    def give_record(self, member: PackMember, source: Source, offset: int, record: Record) -> Iterator[Action]:
        """Let the member act on a record at once, or queue the record if others wait in the member's lane."""
        lane = self._lane_for(member, record)
        if lane is None:
            yield from self.carry_out(member, self._acts(member, source, offset, record))
        else:
            lane.add(self._acts(member, source, offset, record))

    def _lane_for(self, member: PackMember, record: Record) -> Lane[Action] | None:
        """The member's lane; None if it has none, or if waking the thread would take longer than reading the record."""
        lane = self._lanes.get(member.fellow.machine)
        is_little = isinstance(record, Frame) and record.count <= LITTLE_ROWS
        return None if lane is None or (is_little and lane.is_idle) else lane

    def _acts(self, member: PackMember, source: Source, offset: int, record: Record) -> Iterator[Action]:
        actions = member.fellow.machine.on_record(*source, offset, record)
        return self._observer.search(actions) if member.fellow.machine in self._parts else actions

    def carry_out(self, member: PackMember, actions: Iterator[Action]) -> Iterator[Action]:
        """Carry out a member's actions as a pack does, and show the records to the observer."""
        yield from super().carry_out(member, self._seen(actions))

    def _seen(self, actions: Iterator[Action]) -> Iterator[Action]:
        for action in actions:
            if not isinstance(action, Emit):
                yield action
                continue
            record = action.record if self._transport is None else self._transport(action.record)
            self._observer.written(action.topic, record)
            yield action if record is action.record else action._replace(record=record)

    def drain_lanes(self, ahead: int) -> Iterator[Action]:
        """Carry out the actions of members in lanes, until at most `ahead` records wait there."""
        while self._lanes:
            for member in self._laned:
                lane = self._lanes[member.fellow.machine]
                for action in lane.take() if self._has_room(member) else ():
                    yield from self.carry_out(member, iter((action,)))
                    if not self._has_room(member):
                        break
            yield from self.give_waiting_records()
            # The sink holds what the logical AND has found until lanes have answered for the same frames.
            some = ahead if self._sink.wants(Topic.MATCHES, MUTABLE_PART) else 0
            # A task that ends between these two checks leaves results: its lane has them before the task is gone.
            if self._waiting() <= some and not self._has_news():
                return
            self._threads.work_until(lambda: self._has_news() or self._waiting() <= some)  # noqa: B023

    def _has_room(self, member: PackMember) -> bool:
        """Whether the sink has room for a member's results; the member may be ahead of others."""
        part = self._parts.get(member.fellow.machine)
        return part is None or self._sink.wants(Topic.MATCHES, part)

    def _has_news(self) -> bool:
        return any(self._lanes[each.fellow.machine].has_news and self._has_room(each) for each in self._laned)

    def _waiting(self) -> int:
        """How many records the members in lanes haven't finished reading."""
        return sum(lane.waiting for lane in self._lanes.values())
