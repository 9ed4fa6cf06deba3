"""One instance of a role: a machine, its positions in the log, and what it has emitted but the log doesn't hold yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from spojoin.protocol.machine import START, Action, Emit, Machine, ResultPosition, Rewind, TakeOver
from spojoin.protocol.pack import Pack
from spojoin.protocol.packing import Group, edge_of, group_name, records_read, with_standbys
from spojoin.protocol.standby import Standby
from spojoin.protocol.topology import Role, Topic, presence_partition
from spojoin.simulate.broker import AppendsUnderWay
from spojoin.simulate.memorylog import SimulatedLog, Target


@dataclass(frozen=True, slots=True)
class Post:
    """A position to fill: a role, and its number among those of that role (predicate, worker).

    instance: which of its instances, where there are several
    group: the roles that share the process, the first of them first; empty where the role is alone. Then the number is
    that of workers inside.
    """

    role: Role
    number: int = 0
    group: Group = ()
    instance: str = ""

    @property
    def roles(self) -> Group:
        """All roles of the process."""
        return self.group or (self.role,)

    def __str__(self) -> str:
        name = group_name(self.group) if self.group else f"{self.role}-{self.number}"
        return f"{name}.{self.instance}" if self.instance else name

    @property
    def service(self) -> str:
        """What all instances are called."""
        return str(replace(self, instance=""))


class Process:
    """Reads what its role reads, each input from its earliest retained record; each step does one thing.

    `goals` are the ends at the start: once all are reached the machine is caught up. `take_over` opens its writers and
    says how far results are out then, or None where that has to wait. `stands_until` is the step at which one that
    stands still goes on.
    """

    def __init__(
        self,
        post: Post,
        name: str,
        machine: Machine,
        log: SimulatedLog,
        take_over: Callable[[Process], ResultPosition | None] = lambda _: START,
        *,
        has_other_workers: bool = True,
    ) -> None:
        self._take_over = take_over
        self.post = post
        self.name = name
        self.machine = machine
        self.log = log
        edge = edge_of(post.roles, has_others=has_other_workers)
        reads = records_read(with_standbys(edge) if isinstance(machine, Standby) else edge)
        inputs = [target for target in log.partitions if target[0] in reads]
        if isinstance(machine, Standby):
            inputs.append((Topic.PRESENCE, presence_partition(post.service)))
        self.cursors = {target: log.partitions[target].earliest for target in inputs}
        self.goals = {target: log.partitions[target].end for target in inputs}
        self.is_caught_up = False
        self.outbox = AppendsUnderWay()
        self.result_position: ResultPosition = START
        self._trims_seen = log.trims
        self.stalled: dict[Topic, int] = {}
        self.stands_until = 0
        self._pending: Iterator[Action] | None = None

    def machines(self) -> list[tuple[str, Machine]]:
        """Its machines by name."""
        machine = self.machine.machine if isinstance(self.machine, Standby) else self.machine
        if not isinstance(machine, Pack):
            return [(self.name, machine)]
        return [(f"{fellow.role} in {self.name}", fellow.machine) for fellow in machine.fellows]

    # -- what it can do

    @property
    def is_busy(self) -> bool:
        """Whether it is in the middle of a record."""
        return self._pending is not None

    @property
    def is_overtaken(self) -> bool:
        """Whether records that it has not read were trimmed: others did its work, and it must start afresh."""
        if self._trims_seen == self.log.trims:
            return False
        self._trims_seen = self.log.trims
        return any(
            at < self.log.partitions[target].earliest for target, at in self.cursors.items() if self._reads(target)
        )

    def _reads(self, target: Target) -> bool:
        if target[0] is Topic.BATCHES and self.post.roles == (Role.ROUTER,):
            return self.machine.wants(*target)
        return target[0] is not Topic.PRESENCE

    def readable(self, step: int) -> list[Target]:
        """Inputs that hold a record that the machine wants now."""
        return [
            target
            for target, at in self.cursors.items()
            if at < self.log.partitions[target].end
            and self.stalled.get(target[0], 0) <= step
            and self.machine.wants(*target)
        ]

    # -- what it does

    def read(self, target: Target) -> None:
        """Begin with the next record of an input."""
        partition = self.log.partitions[target]
        offset = self.cursors[target]
        self.cursors[target] = offset + 1
        record = partition.records[offset - partition.earliest]
        self.begin(self.machine.on_record(*target, offset, record))

    def begin(self, actions: Iterator[Action]) -> None:
        """Begin to carry out the machine's actions."""
        self._pending = actions

    def go_on(self, actions_max: int) -> None:
        """Carry out up to `actions_max` of the actions begun."""
        for _ in range(actions_max):
            if self._pending is None:
                return
            action = next(self._pending, None)
            if action is None:
                self._pending = None
            elif not self._carry_out(action):
                self._pending = chain([action], self._pending)
                return

    def _carry_out(self, action: Action) -> bool:
        """Whether it could be done; else it has to wait."""
        if isinstance(action, Rewind):
            for target in self.cursors:
                if target[0] is action.topic:
                    self.cursors[target] = self.log.partitions[target].earliest
        elif isinstance(action, TakeOver):
            found = self._take_over(self)
            if found is None:
                return False
            self.hear(found)
        elif isinstance(action, Emit):
            self.outbox.put((action.topic, action.partition), action.record)
        else:
            raise AssertionError(f"{self.name} yields {action!r}, which isn't an action")
        return True

    def catch_up(self) -> bool:
        """Notify the machine, once, that everything from before its start has been read; returns whether it did."""
        if self.is_caught_up or any(self.cursors[target] < goal for target, goal in self.goals.items()):
            return False
        self.is_caught_up = True
        chosen = () if isinstance(self.machine, Standby) else self.machine.on_chosen()
        self.begin(chain(self.machine.on_caught_up(), chosen))
        return True

    def hear(self, result_position: ResultPosition) -> None:
        """Pass the result position to the machine, and trim what it no longer needs."""
        for trim in self.machine.on_result_position(result_position):
            self.log.trim((trim.topic, trim.partition), trim.offset)
        self.result_position = max(self.result_position, result_position)
