"""What a role gives the runtime, and how a process's machine is made of it, for one role or several."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from spojoin.errors import ConfigurationError
from spojoin.protocol.access import SHARING
from spojoin.protocol.machine import Idle, Machine, ResultPosition
from spojoin.protocol.packed_machine import EVALUATING, Fellow, pack_of
from spojoin.protocol.packing import ANSWERER, edge_of, group_name, parse_packing, touched
from spojoin.protocol.result_partitions import WHOLE, ResultPartition
from spojoin.protocol.services import idle_roles
from spojoin.protocol.standby import Seat, standby_of
from spojoin.protocol.topology import LONE_ROLES, Edge, Role, Topic, presence_partition
from spojoin.runtime.feeds import Parse, TableReading
from spojoin.runtime.generations import Serving
from spojoin.runtime.loop_spec import MachineFactory
from spojoin.runtime.originals import OriginalMessages
from spojoin.runtime.settings import ENV_PREFIX, Settings
from spojoin.threads import Threads, cores
from spojoin.wire.result_writers import ResultWriter


@dataclass(frozen=True, slots=True)
class Wiring:
    """A service: its name among its query's services and how its machine is made.

    tick_ms: the time between `on_time` calls
    parse: makes rows of the users' messages, if the machine takes rows
    originals: reads messages again, if the machine is a router
    table: makes the reader of the query's table
    result_writer: writes results in their form, if the machine makes results; share: into this partition
    reads: what it reads as part of a process of several roles; default: all that its role reads
    """

    service: str
    machine_factory: MachineFactory
    tick_ms: float = 20.0
    parse: Parse | None = None
    originals: OriginalMessages | None = None
    result_writer: ResultWriter | None = None
    table: Callable[[], TableReading] | None = None
    share: ResultPartition = WHOLE
    reads: frozenset[Topic] | None = None


Wire = Callable[[Serving, Settings], Wiring]


def numbered(settings: Settings, name: str, count: int) -> int:
    """A setting with a service's number, such as `worker`, from 0 to `count` - 1. Raises ConfigurationError."""
    value = getattr(settings, name)
    if value is None:
        raise ConfigurationError(f"setting {name} is missing: set {ENV_PREFIX}{name.upper()} to 0..{count - 1}")
    if not 0 <= value < count:
        raise ConfigurationError(f"setting {name} is {value}; expected 0..{count - 1}")
    return int(value)


#: If these roles share a process, a batch is made when the frame after its last one arrives.
_AT_ONCE = frozenset({Role.ROUTER, Role.MUTABLE, Role.PERMUTATION, Role.POJOIN})

#: The broker and its clients need the cores as well: threads share a frame only if frames are full, and so more wait.
RELUCTANCE = 8


def edge_with(roles: Iterable[Role], settings: Settings) -> Edge:
    """What a process of these roles reads and writes in the log."""
    group, has_others = tuple(roles), settings.workers_max > settings.workers_packed()
    return edge_of(group, has_others=has_others, has_intakes=intakes_of(group, settings) > 0)


def intakes_of(roles: Collection[Role], settings: Settings) -> int:
    """The number of intakes, which only they and the router know; 0 for others."""
    return 0 if {Role.INTAKE, Role.ROUTER}.isdisjoint(roles) else settings.intakes


def topics_needed(settings: Settings) -> frozenset[Topic]:
    """The topics between all processes of a query, including an optional predictor and controller."""
    others = (touched(edge_with((role,), settings)) for role in LONE_ROLES)
    return awaited_topics(settings).union(*others)


def awaited_topics(settings: Settings) -> frozenset[Topic]:
    """The topics for which results wait."""
    groups = [*parse_packing(settings.packing).groups, (Role.INTAKE,)]
    beats = {Topic.PRESENCE} if settings.standbys else set()
    return frozenset(beats.union(*(touched(edge_with(group, settings)) for group in groups)))


def alone(wires: Mapping[Role, Wire], serving: Serving, settings: Settings) -> Wiring:
    """The wiring of a process of one role; the process stays idle if the query's layout has no work for the role."""
    ((role, wire),) = wires.items()
    wiring = wire(serving, settings)
    is_idle = role in idle_roles(serving.query.layout)
    return Wiring(wiring.service, lambda _: Idle()) if is_idle else wiring


def packed(wires: Mapping[Role, Wire], serving: Serving, settings: Settings) -> Wiring:
    """The wiring of a process of several roles.

    It has one joiner, one logical AND, and the first `workers_inside` workers; or it is an answerer, with one worker.
    """
    layout, is_answerer = serving.query.layout, tuple(wires) == ANSWERER
    threads = settings.threads or (1 if is_answerer else cores())
    serving = replace(serving, runner=Threads(threads, RELUCTANCE))
    if _AT_ONCE.issubset(wires) and settings.handover_frames is None:
        settings = settings.model_copy(update={"handover_frames": 1})
    wirings = [
        (role, wire(serving, own))
        for role, wire in wires.items()
        if role not in idle_roles(layout)
        for own in _instances(role, settings)
    ]

    def machine(result_position: ResultPosition) -> Machine:
        fellows = [
            Fellow(
                role,
                wiring.machine_factory(result_position),
                layout.has_mutable_part and role in EVALUATING,
                wiring.reads,
            )
            for role, wiring in wirings
        ]
        return pack_of(fellows, edge_with(wires, settings))

    by_role = dict(wirings)
    return Wiring(
        by_role[Role.POJOIN].service if is_answerer else group_name(tuple(wires)),
        machine,
        tick_ms=min(wiring.tick_ms for wiring in by_role.values()),
        parse=by_role[Role.ROUTER].parse if Role.ROUTER in by_role else None,
        originals=by_role[Role.ROUTER].originals if Role.ROUTER in by_role else None,
        result_writer=by_role[Role.SINK].result_writer if Role.SINK in by_role else None,
        table=by_role[Role.ROUTER].table if Role.ROUTER in by_role else None,
    )


def instance_of(wiring: Wiring, settings: Settings, *, is_heir: bool = True) -> MachineFactory:
    """Makes the machine of one of a service's instances, or without standbys, of one that replaces another.

    is_heir: as in `Seat`
    """
    service, instance, patience_ms = wiring.service, settings.instance, settings.patience_ms

    def machine(result_position: ResultPosition) -> Machine:
        made = wiring.machine_factory(result_position)
        if not settings.standbys:
            return standby_of(made, None)
        seat = Seat(service, instance, uuid.uuid4().hex, patience_ms, is_heir=is_heir)
        return standby_of(made, seat, presence_partition(service))

    return machine


def takes_over(roles: Iterable[Role], settings: Settings) -> bool:
    """Whether a process of these roles waits before it speaks: it has standbys, or only one instance may write."""
    return settings.standbys or not SHARING.keys().isdisjoint(roles)


def _instances(role: Role, settings: Settings) -> Iterator[Settings]:
    """The settings of each machine of a role in a shared process."""
    if settings.has_answerers and role in ANSWERER:
        yield settings
    elif role is Role.MUTABLE:
        yield settings.model_copy(update={"joiner": 0, "joiners": 1})
    elif role is Role.LOGICAL_AND:
        yield settings.model_copy(update={"logical_ands": 1})
    elif role is Role.POJOIN:
        for worker in range(settings.workers_packed()):
            yield settings.model_copy(update={"worker": worker})
    else:
        yield settings
