"""Which roles share a process, and which topics are therefore needed between processes.

Topics that follow from the log needn't be durable: within a process, `partials`, `runs` and `matches` pass by
reference. They are topics only if a reader or a writer is in another process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from spojoin.errors import ConfigurationError
from spojoin.protocol.topology import LONE_ROLES, NOT_RECORDS, PACKABLE, TOPOLOGY, Edge, Role, Topic
from spojoin.suggest import unknown

#: Topics that follow from frames and batches.
DERIVED = (Topic.PARTIALS, Topic.RUNS, Topic.MATCHES)

#: Topics between intakes and the router.
BLOCK_TOPICS = (Topic.BLOCKS, Topic.POSITIONS)

#: The names of two packings: each role in its own process, and all in one.
APART, TOGETHER = "apart", "together"

Group = tuple[Role, ...]

#: The roles of an answerer: a PO-Join worker with the mutable part and the logical AND of its frames. Of all groups, it
#: alone runs as often as there are workers; each of its processes has its worker's name.
ANSWERER: Group = tuple(role for role in PACKABLE if role in {Role.MUTABLE, Role.LOGICAL_AND, Role.POJOIN})
#: A short name of that group in packings.
ANSWERER_NAME = "answerer"


@dataclass(frozen=True, slots=True)
class Packing:
    """Groups of roles, each a process; every packable role is in exactly one."""

    groups: tuple[Group, ...]

    def group_of(self, role: Role) -> Group:
        """The roles of the process in which a role runs; a role that isn't packable is alone."""
        return next((group for group in self.groups if role in group), (role,))

    def is_shared(self, role: Role) -> bool:
        """Whether a role's process has other roles as well."""
        return len(self.group_of(role)) > 1

    @property
    def has_answerers(self) -> bool:
        """Whether each worker is an answerer."""
        return ANSWERER in self.groups

    @property
    def has_workers_inside(self) -> bool:
        """Whether the first workers share one process with other roles."""
        return self.is_shared(Role.POJOIN) and not self.has_answerers

    @property
    def shared(self) -> tuple[Group, ...]:
        """The groups of several roles."""
        return tuple(group for group in self.groups if len(group) > 1)

    def __str__(self) -> str:
        if not self.shared:
            return APART
        return TOGETHER if self.groups == (PACKABLE,) else " ".join(group_name(group) for group in self.shared)


def group_name(group: Sequence[Role]) -> str:
    """The name of a group: `together` if it has all packable roles, otherwise its roles, joined by plus signs."""
    return TOGETHER if tuple(group) == PACKABLE else "+".join(role.value for role in group)


def roles_of(name: str) -> Group:
    """The roles of a process, from its name as `group_name` returns it; empty if the name is no such name."""
    names = [role.value for role in PACKABLE] if name == TOGETHER else name.split("+")
    known = {role.value: role for role in Role}
    return tuple(known[each] for each in names) if all(each in known for each in names) else ()


def parse_packing(text: str) -> Packing:
    """`apart`, `together`, or groups such as `router+sink answerer`; roles not named stay alone.

    Raises ConfigurationError.
    """
    named = [_group(part) for part in _parts(text)]
    for role in PACKABLE:
        if sum(role in group for group in named) > 1:
            raise ConfigurationError(f"packing {text!r} names {role.value} twice; a role runs in one process")
    alone = [(role,) for role in PACKABLE if not any(role in group for group in named)]
    return Packing(tuple(sorted([*named, *alone], key=lambda group: PACKABLE.index(group[0]))))


def _parts(text: str) -> list[str]:
    if text.strip() == APART:
        return []
    if text.strip() == TOGETHER:
        return ["+".join(role.value for role in PACKABLE)]
    found = [part for part in re.split(r"[\s,]+", text) if part]
    if not found:
        raise ConfigurationError(f"packing {text!r} names no role; expected {APART}, {TOGETHER} or groups of roles")
    return found


def parse_group(text: str) -> Group:
    """The roles of one process: one role, `together`, `answerer`, or packable roles with plus signs between them.

    Raises ConfigurationError.
    """
    if text == TOGETHER:
        return PACKABLE
    return (Role(text),) if text in LONE_ROLES else _group(text)


def _group(part: str) -> Group:
    if part == ANSWERER_NAME:
        return ANSWERER
    names, known = part.split("+"), [role.value for role in PACKABLE]
    for name in names:
        if name not in known:
            others = [role.value for role in LONE_ROLES]
            expected = [*known, *others, ANSWERER_NAME, TOGETHER] if len(names) == 1 else known
            raise ConfigurationError(f"{unknown('role', name, expected)}; several are such as router+sink")
    if len(set(names)) < len(names):
        raise ConfigurationError(f"{part!r} names a role twice")
    return tuple(role for role in PACKABLE if role.value in names)


def edge_of(roles: Iterable[Role], *, has_others: bool = False, has_intakes: bool = False) -> Edge:
    """What a process of these roles reads and writes in the log.

    A derived topic counts only if another worker, or a process with other roles, reads or writes it.
    has_others: whether workers also run in other processes
    has_intakes: whether intakes read the inputs for the router; otherwise there are no blocks (P23)
    """
    group = tuple(roles)
    edges = [edge if has_intakes else _without_blocks(edge) for edge in TOPOLOGY if edge.role in group]
    if len(group) == 1:
        return edges[0]
    has_others = has_others or group == ANSWERER
    outside = [edge for edge in TOPOLOGY if edge.role not in group or (has_others and edge.role is Role.POJOIN)]
    inner_reads = {t for t in DERIVED if not any(t in edge.writes for edge in outside)}
    inner_writes = {t for t in DERIVED if not any(t in edge.reads for edge in outside)}
    return Edge(
        group[0],
        _in_order(t for edge in edges for t in edge.reads if t not in inner_reads),
        _in_order(t for edge in edges for t in edge.writes if t not in inner_writes),
        _in_order(t for edge in edges for t in edge.trims if t not in inner_reads),
    )


def _without_blocks(edge: Edge) -> Edge:
    parts = ((topic for topic in each if topic not in BLOCK_TOPICS) for each in (edge.reads, edge.writes, edge.trims))
    return Edge(edge.role, *map(tuple, parts))


def with_standbys(edge: Edge) -> Edge:
    """The edge of one of several instances: one that writes runs also reads the batches made of them (P15)."""
    if Topic.RUNS not in edge.writes or Topic.BATCHES in edge.reads:
        return edge
    return replace(edge, reads=_in_order((*edge.reads, Topic.BATCHES)))


def touched(edge: Edge) -> frozenset[Topic]:
    """The topics that must exist for a process: each distinguishes the log from an earlier one with the same name.

    No process waits for hints and requests: the services that write them create their topics.
    """
    read = {*edge.reads, Topic.FRAMES} - {Topic.INPUT, Topic.PLAN, Topic.CONTROL}
    return frozenset({*read, *edge.writes, *edge.trims})


def records_read(edge: Edge) -> tuple[Topic, ...]:
    """The topics from which a process takes records."""
    return tuple(topic for topic in edge.reads if topic not in NOT_RECORDS)


def _in_order(topics: Iterable[Topic]) -> tuple[Topic, ...]:
    found = set(topics)
    return tuple(topic for topic in Topic if topic in found)
