"""Which roles share a process in a simulated world, and which processes that makes."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from spojoin.protocol.packing import APART, PACKABLE, TOGETHER, Group, Packing, parse_packing
from spojoin.protocol.topology import Role
from spojoin.simulate import probabilities as odds
from spojoin.simulate.process import Post


@dataclass(frozen=True, slots=True)
class DrawnPacking:
    """A packing, and how many of the first workers are inside where PO-Join shares a process."""

    packing: Packing
    workers_inside: int = 1

    @property
    def inside(self) -> int:
        """How many workers share a process with other roles."""
        return self.workers_inside if self.packing.is_shared(Role.POJOIN) else 0


ALL_APART = DrawnPacking(parse_packing(APART))


#: A service without a standby.
ALONE = ("",)


def draw_instances(seed: int) -> tuple[tuple[str, ...], int]:
    """The instances of every process of a seed's world, and the patience of standbys in milliseconds."""
    rng = Random(f"standbys {seed}")
    return (("a", "b") if rng.random() < odds.STANDBYS else ALONE), rng.choice(odds.PATIENCE_MS)


def draw_packings(seed: int) -> tuple[DrawnPacking, tuple[tuple[int, DrawnPacking], ...]]:
    """The packing that a seed's world begins with, and those that it moves to, with their steps."""
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


def posts_of(drawn: DrawnPacking, predicates: int, workers: int) -> list[Post]:
    """The processes of a packing; `workers` of them are PO-Join workers, unless more are inside."""
    posts = [Post(group[0], drawn.inside, group) for group in drawn.packing.shared]
    alone = [role for role in PACKABLE if not drawn.packing.is_shared(role)]
    posts += [Post(role) for role in (Role.ROUTER, Role.PERMUTATION, Role.LOGICAL_AND, Role.SINK) if role in alone]
    if Role.MUTABLE in alone:
        posts += [Post(Role.MUTABLE, number) for number in range(predicates)]
    return posts + [Post(Role.POJOIN, number) for number in range(drawn.inside, workers)]


def members_of(group: Group, predicates: int, inside: int) -> list[Post]:
    """The machines of a process of several roles: all mutable joiners, and the first workers."""
    counts = {Role.MUTABLE: predicates, Role.POJOIN: inside}
    return [Post(role, number) for role in group for number in range(counts.get(role, 1))]
