"""How the runtime makes the machine of a process: that of its role, or one of the machines of several."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from spojoin.protocol.machine import Idle, Machine, ResultPosition
from spojoin.protocol.pack import EVALUATING, Fellow, pack_of
from spojoin.protocol.packing import edge_of, group_name, parse_packing, touched
from spojoin.protocol.seat import Seat
from spojoin.protocol.services import idle_roles
from spojoin.protocol.standby import standby_of
from spojoin.protocol.topology import Edge, Role, Topic, presence_partition
from spojoin.runtime.generations import Serving
from spojoin.runtime.loop import MachineFactory
from spojoin.runtime.settings import Settings
from spojoin.runtime.wiring import Wire, Wiring
from spojoin.threads import Threads, cores

#: Where these share a process, the frame behind a batch's last one finds it made.
_AT_ONCE = frozenset({Role.ROUTER, Role.MUTABLE, Role.PERMUTATION, Role.POJOIN})

#: The broker and its clients want the cores as well: only where frames are full, and so more wait, a frame is shared.
RELUCTANCE = 8


def edge_with(roles: Iterable[Role], settings: Settings) -> Edge:
    """What a process of these roles reads and writes in the log."""
    return edge_of(roles, has_others=settings.workers_max > settings.workers_packed())


def topics_needed(settings: Settings) -> frozenset[Topic]:
    """The topics between all processes of a query; a predictor and a controller may be among them."""
    others = (touched(edge_with((role,), settings)) for role in (Role.PREDICTOR, Role.CONTROLLER))
    return awaited_topics(settings).union(*others)


def awaited_topics(settings: Settings) -> frozenset[Topic]:
    """Those that results wait for."""
    groups = parse_packing(settings.packing).groups
    beats = {Topic.PRESENCE} if settings.standbys else set()
    return frozenset(beats.union(*(touched(edge_with(group, settings)) for group in groups)))


def alone(wires: Mapping[Role, Wire], serving: Serving, settings: Settings) -> Wiring:
    """The wiring of a process of one role; where the query's layout has no work for it, it stays idle."""
    ((role, wire),) = wires.items()
    wiring = wire(serving, settings)
    is_idle = role in idle_roles(serving.query.layout)
    return Wiring(wiring.service, lambda _: Idle()) if is_idle else wiring


def packed(wires: Mapping[Role, Wire], serving: Serving, settings: Settings) -> Wiring:
    """The wiring of a process of several roles: all mutable joiners in one, and the first `workers_inside` workers."""
    layout = serving.query.layout
    serving = replace(serving, runner=Threads(settings.threads or cores(), RELUCTANCE))
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
            Fellow(role, wiring.machine_factory(result_position), layout.has_mutable_part and role in EVALUATING)
            for role, wiring in wirings
        ]
        return pack_of(fellows, edge_with(wires, settings))

    by_role = dict(wirings)
    return Wiring(
        group_name(tuple(wires)),
        machine,
        tick_ms=min(wiring.tick_ms for wiring in by_role.values()),
        parse=by_role[Role.ROUTER].parse if Role.ROUTER in by_role else None,
        row_form=by_role[Role.SINK].row_form if Role.SINK in by_role else None,
        table=by_role[Role.ROUTER].table if Role.ROUTER in by_role else None,
    )


def instance_of(wiring: Wiring, settings: Settings, *, is_heir: bool = True) -> MachineFactory:
    """Makes the machine of one of a service's instances; without standbys of one that takes the place of another.

    is_heir: as for `Seat`
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
    """Whether a process of these roles waits for its turn to speak: one of several, or of whom one alone may write."""
    return settings.standbys or not {Role.ROUTER, Role.SINK}.isdisjoint(roles)


def _instances(role: Role, settings: Settings) -> Iterator[Settings]:
    """The settings of each machine of a role in a process that it shares."""
    if role is Role.MUTABLE:
        yield settings.model_copy(update={"joiner": 0, "joiners": 1})
    elif role is Role.POJOIN:
        for worker in range(settings.workers_packed()):
            yield settings.model_copy(update={"worker": worker})
    else:
        yield settings
