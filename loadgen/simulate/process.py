"""Processes of a simulated world: the roles that share one, and an instance with its machine and its log place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from random import Random

from loadgen.simulate import probabilities as odds
from loadgen.simulate.broker import AppendsUnderWay, SimulatedLog, Target
from spojoin.model import Query
from spojoin.protocol.machine import START, Action, Emit, InputMachine, Machine, ResultPosition, Rewind, TakeOver
from spojoin.protocol.packed_machine import Pack
from spojoin.protocol.packing import (
    ANSWERER,
    APART,
    TOGETHER,
    Group,
    Packing,
    edge_of,
    group_name,
    parse_packing,
    records_read,
    with_standbys,
)
from spojoin.protocol.result_partitions import WHOLE, ResultPartition
from spojoin.protocol.services import Rotation
from spojoin.protocol.standby import Standby
from spojoin.protocol.topology import PACKABLE, Role, Topic, presence_partition
from spojoin.roles.logical_and.answering import AnsweringAnd
from spojoin.roles.logical_and.machine import LogicalAndMachine
from spojoin.roles.mutable.answering import AnsweringJoiner
from spojoin.roles.mutable.machine import MutableMachine
from spojoin.roles.permutation.machine import PermutationMachine
from spojoin.roles.pojoin.worker import PoJoinWorker
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.roles.sink.machine import SinkMachine
from spojoin.wire.records import Result


@dataclass(frozen=True, slots=True)
class MachineMakers:
    """The factories of each role's machine; mutants replace some."""

    router: Callable[[Query, ResultPosition, RouterConfig], InputMachine]
    mutable: Callable[[Query, int, ResultPosition, Rotation], Machine]
    permutation: Callable[[Query, ResultPosition], Machine]
    pojoin: Callable[[Query, int, ResultPosition], Machine]
    logical_and: Callable[[Query, ResultPosition, Rotation, int], Machine]
    sink: Callable[[Query, ResultPosition, ResultPartition], Machine]
    answering_joiner: Callable[[Query, int, ResultPosition], Machine] = AnsweringJoiner
    answering_and: Callable[[Query, ResultPosition, Callable[[int], int]], Machine] = AnsweringAnd


def make_sink(query: Query, result_position: ResultPosition, share: ResultPartition = WHOLE) -> Machine:
    """A sink of the first generation."""
    return SinkMachine(query, result_position, share=share)


WIRING = MachineMakers(
    router=RouterMachine,
    mutable=MutableMachine,
    permutation=PermutationMachine,
    pojoin=PoJoinWorker,
    logical_and=LogicalAndMachine,
    sink=make_sink,
)


@dataclass(frozen=True, slots=True)
class Post:
    """The position of a process: a role, and its number within the role (joiner, worker, logical AND, sink).

    instance: which of its instances, if there are several
    group: the roles that share the process, this role first; empty if the role is alone. For a group, the number is
    that of workers inside; for an answerer, whose role is that of its worker, it is the worker's.
    """

    role: Role
    number: int = 0
    group: Group = ()
    instance: str = ""

    @property
    def roles(self) -> Group:
        """All roles of the process."""
        return self.group or (self.role,)

    @property
    def is_answerer(self) -> bool:
        """Whether it is one of the workers that have a mutable part."""
        return self.group == ANSWERER

    @property
    def sink(self) -> int:
        """The number of its sink."""
        return self.number if self.role is Role.SINK and not self.group else 0

    def __str__(self) -> str:
        name = group_name(self.group) if self.group and not self.is_answerer else f"{self.role}-{self.number}"
        return f"{name}.{self.instance}" if self.instance else name

    @property
    def service(self) -> str:
        """The common name of all instances."""
        return str(replace(self, instance=""))


class Process:
    """Reads its role's inputs, each from its earliest retained record; each step does one thing.

    `goals` are the ends of the inputs at the start: when all are reached, the machine has caught up. `take_over` opens
    its writers and returns the result position, or None if it has to wait. `results_out` is what its partition of the
    results lacked when its writer was opened. `stands_until` is the step at which a
    process that stands still continues.
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
        has_intakes: bool = True,
    ) -> None:
        self._take_over = take_over
        self.post = post
        self.name = name
        self.machine = machine
        self.log = log
        edge = edge_of(post.roles, has_others=has_other_workers, has_intakes=has_intakes)
        reads = records_read(with_standbys(edge) if isinstance(machine, Standby) else edge)
        inputs = [target for target in log.partitions if target[0] in reads]
        if isinstance(machine, Standby):
            inputs.append((Topic.PRESENCE, presence_partition(post.service)))
        self.cursors = {target: log.partitions[target].earliest for target in inputs}
        self.goals = {target: log.partitions[target].end for target in inputs}
        self.is_caught_up = False
        self.outbox = AppendsUnderWay()
        self.result_position: ResultPosition = START
        self.results_out: ResultPosition = START
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

    # -- possible steps

    @property
    def is_busy(self) -> bool:
        """Whether it is in the middle of a record."""
        return self._pending is not None

    @property
    def is_overtaken(self) -> bool:
        """Whether unread records were trimmed: other processes did its work, and it must restart."""
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
        """Inputs with a record that the machine wants now."""
        return [
            target
            for target, at in self.cursors.items()
            if at < self.log.partitions[target].end
            and self.stalled.get(target[0], 0) <= step
            and self.machine.wants(*target)
        ]

    # -- steps

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
        """Carry out an action; returns False if it has to wait."""
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
            if not self._is_out(action):
                self.outbox.put((action.topic, action.partition), action.record)
        else:
            raise AssertionError(f"{self.name} yields {action!r}, which isn't an action")
        return True

    def _is_out(self, action: Emit) -> bool:
        """Whether a result was in its partition before the writer was opened."""
        record = action.record
        return isinstance(record, Result) and (record.frame_id, record.begin) < self.results_out

    def catch_up(self) -> bool:
        """Notify the machine, once, that it has read everything from before its start; returns whether it did."""
        if self.is_caught_up or any(self.cursors[target] < goal for target, goal in self.goals.items()):
            return False
        self.is_caught_up = True
        chosen = () if isinstance(self.machine, Standby) else self.machine.on_chosen()
        self.begin(chain(self.machine.on_caught_up(), chosen))
        return True

    def hear(self, result_position: ResultPosition) -> None:
        """Pass the result position to the machine, and trim records that it no longer needs."""
        for trim in self.machine.on_result_position(result_position):
            self.log.trim((trim.topic, trim.partition), trim.offset)
        self.result_position = max(self.result_position, result_position)


@dataclass(frozen=True, slots=True)
class DrawnPacking:
    """A packing, and the number of workers inside if PO-Join shares a process."""

    packing: Packing
    workers_inside: int = 1

    @property
    def inside(self) -> int:
        """The number of workers that share a process with other roles."""
        return self.workers_inside if self.packing.has_workers_inside else 0


ALL_APART = DrawnPacking(parse_packing(APART))


#: A service without a standby.
ALONE = ("",)


def draw_instances(seed: int) -> tuple[tuple[str, ...], int]:
    """The instances of every process of a seed's world, and the patience of standbys in milliseconds."""
    rng = Random(f"standbys {seed}")
    return (("a", "b") if rng.random() < odds.STANDBYS else ALONE), rng.choice(odds.PATIENCE_MS)


def draw_packings(seed: int) -> tuple[DrawnPacking, tuple[tuple[int, DrawnPacking], ...]]:
    """The first packing of a seed's world, and the packings that it moves to, with their steps."""
    rng = Random(f"packing {seed}")
    first = _draw(rng)
    moves = sorted(rng.choice(odds.REPACKED_AT_STEPS) for _ in range(rng.choice(odds.REPACKS)))
    return first, tuple((step, _draw(rng)) for step in moves)


def _draw(rng: Random) -> DrawnPacking:
    kind = rng.choices((APART, TOGETHER, "groups"), odds.PACKING_WEIGHTS)[0]
    if kind != "groups":
        return DrawnPacking(parse_packing(kind), rng.choice(odds.WORKERS_INSIDE))
    numbers = {role: rng.choice(odds.PACKING_GROUPS) for role in PACKABLE}
    groups = [[role.value for role in PACKABLE if numbers[role] == number] for number in set(numbers.values())]
    return DrawnPacking(parse_packing(" ".join("+".join(group) for group in groups)), rng.choice(odds.WORKERS_INSIDE))


def posts_of(drawn: DrawnPacking, counts: Mapping[Role, int]) -> list[Post]:
    """The processes of a packing; `counts` has how many of a role run apart, of PO-Join those inside included."""
    posts = [Post(group[0], drawn.inside, group) for group in drawn.packing.shared if group != ANSWERER]
    alone = (Role.INTAKE, Role.ROUTER, Role.PERMUTATION, Role.LOGICAL_AND, Role.SINK, Role.MUTABLE)
    posts += [
        Post(role, number)
        for role in alone
        if not drawn.packing.is_shared(role)
        for number in range(counts.get(role, 1))
    ]
    workers = range(drawn.inside, counts[Role.POJOIN])
    return posts + [Post(Role.POJOIN, number, ANSWERER if drawn.packing.has_answerers else ()) for number in workers]


def members_of(group: Group, predicates: int, inside: int) -> list[Post]:
    """The machines of a process of several roles: all mutable joiners, and the first workers."""
    counts = {Role.MUTABLE: predicates, Role.POJOIN: inside}
    return [Post(role, number) for role in group for number in range(counts.get(role, 1))]
