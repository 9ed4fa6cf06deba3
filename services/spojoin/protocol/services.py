"""A query's services by name: which should run, and which of them results wait for."""

from __future__ import annotations

from collections.abc import Iterable

from spojoin.model import LayoutChoice, Query
from spojoin.protocol.joiners import joiner_count
from spojoin.protocol.packing import APART, TOGETHER, group_name, parse_packing
from spojoin.protocol.topology import BATCH_ROLES, Role

#: Without one of these there are no results; nothing waits for the others.
NEEDED = (Role.ROUTER, Role.MUTABLE, Role.PERMUTATION, Role.POJOIN, Role.LOGICAL_AND, Role.SINK)

#: The instance of a service that is called as the service itself.
FIRST_INSTANCE = "a"


def names(role: Role, count: int) -> tuple[str, ...]:
    """The services of a role that has several."""
    return tuple(f"{role.value}-{number}" for number in range(count))


def idle_roles(layout: LayoutChoice) -> tuple[Role, ...]:
    """The roles that a layout has no work for."""
    return () if layout.has_mutable_part else BATCH_ROLES


def without_workers(query: Query, joiners: int | None = None, packing: str = APART) -> tuple[str, ...]:
    """The services that results need, but for PO-Join workers alone, whose number the log says; in the data's way.

    What the query's layout has no work for is left out. `joiners`: None for as many as predicates.
    """
    idle = idle_roles(query.layout)
    found: list[str] = []
    for group in parse_packing(packing).groups:
        busy = [role for role in group if role not in idle]
        if len(group) > 1 and busy:
            found.append(group_name(group))
        elif busy == [Role.MUTABLE]:
            found += names(Role.MUTABLE, joiner_count(len(query.predicates), joiners))
        elif busy and busy != [Role.POJOIN]:
            found.append(busy[0].value)
    return tuple(found)


def instance_name(service: str, instance: str) -> str:
    """What an instance of a service is called: the first one as the service itself."""
    return service if instance == FIRST_INSTANCE else f"{service}.{instance}"


def service_of(process: str) -> str:
    """The service that a process is an instance of, by its name: `router` of `router` and of `router.b`."""
    return process.partition(".")[0]


def role_of(service: str) -> str:
    """The role in a service's name: `pojoin` of pojoin-1; the roles where it has several."""
    service = service_of(service)
    stem, _, number = service.rpartition("-")
    return stem if number.isdecimal() else service


def in_order(services: Iterable[str]) -> list[str]:
    """By the data's way, by number, pojoin-2 before pojoin-10, and instances of a service by their names."""
    return sorted(set(services), key=lambda service: (*_place(service_of(service)), service))


def _place(service: str) -> tuple[int, str, int]:
    role = role_of(service)
    order = [TOGETHER, *(each.value for each in Role)]
    number = service.removeprefix(f"{role}-")
    first = role.split("+", maxsplit=1)[0]
    place = order.index(first) if first in order else len(order)
    return place, role, int(number) if number.isdecimal() and number != service else 0
