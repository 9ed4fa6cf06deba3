"""Which nodes to merge: geometrically while a group grows, the whole group once a later one has begun, then groups.

Nodes are kept in index order and never overlap. Every function changes the list in place.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from spojoin.index.node import LEAVING, SEVERAL, Node, merged
from spojoin.wire.records import NO_GROUP

#: How many neighbours of one level become one node: a tuple is merged log4(batches) times, and growing groups have few
#: nodes.
FAN_IN = 4
#: The head of a merged node that no window reaches is dropped once it exceeds this fraction (one in ...) of all held
#: tuples. So memory shrinks even with small windows, and the dropped tuples pay for the split.
BEHIND_ONE_IN = 8


def insert(nodes: list[Node], node: Node) -> int:
    """Insert a node in order, splitting a node that encloses it; return its place."""
    at = cut(nodes, node.first)
    nodes.insert(at, node)
    return at


def cut(nodes: list[Node], index: int) -> int:
    """Split the node that has indexes on both sides of one, if there is such a node; return how many lie below it."""
    at = bisect_left(nodes, index, key=lambda n: n.first)
    if at > 0 and nodes[at - 1].end > index:
        around = nodes[at - 1]
        nodes[at - 1 : at] = around.split(int(around.offsets_below(np.array([index]))[0]), around.level)
    return at


def grow(nodes: list[Node], at: int, size_max: int) -> None:
    """Merge while FAN_IN neighbours of one group and level, including the node at `at`, fit into one node."""
    while True:
        begin, end = _alike(nodes, at)
        end = min(end, begin + FAN_IN)
        if end - begin < FAN_IN or nodes[at].level == LEAVING or _size(nodes[begin:end]) > size_max:
            return
        nodes[begin:end] = [merged(nodes[begin:end], nodes[begin].level + 1)]
        at = begin


def close(nodes: list[Node], group: int, size_max: int) -> None:
    """Merge all neighbours of a group into as few nodes as possible."""
    begin = 0
    while begin < len(nodes):
        end = begin + 1
        while end < len(nodes) and _joins(nodes, begin, end, group, size_max):
            end += 1
        if end - begin > 1:
            nodes[begin:end] = [merged(nodes[begin:end], max(n.level for n in nodes[begin:end]) + 1)]
        begin += 1


def gather(nodes: list[Node], group: int, size_max: int, fan_in: int) -> None:
    """Merge the newest neighbours before `group` while `fan_in` hold equally many whole groups and fit into one node.

    With two, as in a binary counter, an index of g groups that no window leaves yet has about log2(g) nodes for them.
    """
    end = next((at for at, node in enumerate(nodes) if node.group == group), len(nodes))
    while end >= fan_in and _may_share(nodes[end - fan_in : end], size_max):
        some = nodes[end - fan_in : end]
        nodes[end - fan_in : end] = [merged(some, max(node.level for node in some) + 1)]
        end -= fan_in - 1


def part(nodes: list[Node], is_cut: Callable[[Node], bool], size_max: int) -> None:
    """Split nodes of more than `size_max` tuples while a bound cuts them: where groups meet, or in halves."""
    at = 0
    while at < len(nodes):
        node = nodes[at]
        if node.size > size_max and is_cut(node):
            nodes[at : at + 1] = node.split(_middle(node), LEAVING)
        else:
            at += 1


def drop_head(nodes: list[Node], low: int) -> None:
    """Drop the part of a merged node before `low` if it is a notable share of all held tuples.

    Batches are dropped as a whole: a batch that is alone in its node stays until `low` has passed it.
    """
    first = nodes[0] if nodes else None
    if first is None or first.level == 0 or low <= first.first or BEHIND_ONE_IN * (low - first.first) <= _size(nodes):
        return
    behind = int(first.offsets_below(np.array([low]))[0])
    if BEHIND_ONE_IN * behind > _size(nodes):
        nodes[0] = first.split(behind, LEAVING)[1]


def _alike(nodes: list[Node], at: int) -> tuple[int, int]:
    begin, end, kind = at, at + 1, (nodes[at].group, nodes[at].level)
    while begin > 0 and (nodes[begin - 1].group, nodes[begin - 1].level) == kind:
        begin -= 1
    while end < len(nodes) and (nodes[end].group, nodes[end].level) == kind:
        end += 1
    return begin, end


def _joins(nodes: list[Node], begin: int, end: int, group: int, size_max: int) -> bool:
    same = all(n.group == group and n.level != LEAVING for n in (nodes[begin], nodes[end]))
    return same and _size(nodes[begin : end + 1]) <= size_max


def _may_share(nodes: list[Node], size_max: int) -> bool:
    are_whole = all(node.group != NO_GROUP and node.level != LEAVING for node in nodes)
    are_others = all(a.group != b.group or a.group == SEVERAL for a, b in pairwise(nodes))
    are_alike = len({len(node.group_ends) for node in nodes}) == 1
    return are_whole and are_others and are_alike and _size(nodes) <= size_max


def _middle(node: Node) -> int:
    return node.group_ends[len(node.group_ends) // 2] if node.group_ends else node.size // 2


def _size(nodes: list[Node]) -> int:
    return sum(n.size for n in nodes)
