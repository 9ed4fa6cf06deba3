"""A query's services by name: which should run, which ones results need, and what each of several evaluates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from spojoin.model import LayoutChoice, Query
from spojoin.protocol.packing import ANSWERER, APART, TOGETHER, group_name, parse_packing
from spojoin.protocol.topology import BATCH_ROLES, MACHINE_ROLES, Role
from spojoin.wire.records import Frame


def joiner_count(predicates: int, joiners: int | None) -> int:
    """The number of mutable joiners: one for each predicate unless a setting says otherwise."""
    return predicates if joiners is None else joiners


class Rotation(NamedTuple):  # P22.6
    """The frames or batches that one of several machines takes: those whose number modulo `of` is `at`."""

    at: int = 0
    of: int = 1

    def has(self, number: int) -> bool:
        """Whether it is the machine's turn to take the frame or batch with this number."""
        return number % self.of == self.at

    def has_frame(self, frame: Frame) -> bool:
        """Whether it is the machine's turn to evaluate a frame."""
        return self.has(frame.frame_id)

    def has_batch(self, _: Frame, batch_id: int) -> bool:
        """Whether it is the machine's turn to sort a batch."""
        return self.has(batch_id)


#: The turn of a machine that is alone.
ALL = Rotation()


class JoinerTurn(Protocol):
    """The frames that a joiner evaluates, and the batches that it sorts."""

    def has_frame(self, frame: Frame, /) -> bool:
        """Whether the joiner evaluates a frame."""

    def has_batch(self, frame: Frame, batch_id: int, /) -> bool:
        """Whether the joiner sorts a batch which a frame seals."""


class JoinerShare(NamedTuple):
    """What a joiner evaluates: its predicates, for the frames of its turn."""

    predicates: range
    turn: Rotation


def share_of_joiner(joiner: int, joiners: int, predicates: int) -> JoinerShare:  # P22.1
    """The share of joiner number `joiner` of `joiners`: without predicates if its row isn't whole."""
    columns = min(joiners, predicates)
    rows = joiners // columns
    row, column = divmod(joiner, columns)
    return JoinerShare(range(column, predicates, columns) if row < rows else range(0), Rotation(row % rows, rows))


#: The roles that results need; nothing waits for the others.
NEEDED = MACHINE_ROLES

#: The instance that has the same name as its service.
FIRST_INSTANCE = "a"


def names(role: Role, count: int) -> tuple[str, ...]:
    """The services of a role that has several, by name."""
    return tuple(f"{role.value}-{number}" for number in range(count))


def names_from_one(role: Role, count: int) -> tuple[str, ...]:
    """The services of a role that has one or several: a single one has the role's name."""
    return names(role, count) if count > 1 else (role.value,)


def idle_roles(layout: LayoutChoice) -> tuple[Role, ...]:
    """The roles for which a layout has no work."""
    return () if layout.has_mutable_part else BATCH_ROLES


def without_workers(
    query: Query,
    joiners: int | None = None,
    packing: str = APART,
    logical_ands: int = 1,
    sinks: int = 1,
    intakes: int = 0,
) -> tuple[str, ...]:
    """The services that results need, in the order of the data flow, without PO-Join workers: the log has their number.

    Roles for which the query's layout has no work are left out. joiners: None for as many as predicates.
    """
    idle = idle_roles(query.layout)
    found = [*names(Role.INTAKE, intakes)]
    for group in parse_packing(packing).groups:
        busy = [role for role in group if role not in idle]
        if group == ANSWERER:
            continue
        if len(group) > 1 and busy:
            found.append(group_name(group))
        elif busy == [Role.MUTABLE]:
            found += names(Role.MUTABLE, joiner_count(len(query.predicates), joiners))
        elif busy == [Role.LOGICAL_AND]:
            found += names_from_one(Role.LOGICAL_AND, logical_ands)
        elif busy == [Role.SINK]:
            found += names_from_one(Role.SINK, sinks)
        elif busy and busy != [Role.POJOIN]:
            found.append(busy[0].value)
    return tuple(found)


def instance_name(service: str, instance: str) -> str:
    """The name of a service's instance: for the first one, the service's name."""
    return service if instance == FIRST_INSTANCE else f"{service}.{instance}"


def service_of(process: str) -> str:
    """The service whose instance a process is, from its name: `router` for `router` and `router.b`."""
    return process.partition(".")[0]


def role_of(service: str) -> str:
    """The role in a service's name, such as `pojoin` for pojoin-1; the roles if it has several."""
    service = service_of(service)
    stem, _, number = service.rpartition("-")
    return stem if number.isdecimal() else service


def in_order(services: Iterable[str]) -> list[str]:
    """Sorted by data flow, then by number (pojoin-2 before pojoin-10), and instances of a service by name."""
    return sorted(set(services), key=lambda service: (*_place(service_of(service)), service))


def _place(service: str) -> tuple[int, str, int]:
    role = role_of(service)
    order = [TOGETHER, *(each.value for each in Role)]
    number = service.removeprefix(f"{role}-")
    first = role.split("+", maxsplit=1)[0]
    place = order.index(first) if first in order else len(order)
    return place, role, int(number) if number.isdecimal() and number != service else 0
