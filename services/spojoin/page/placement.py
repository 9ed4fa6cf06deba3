"""Coordinates for a graph with nodes in rows: few crossings, no overlaps, and lines that pass between the nodes.

These are the usual steps of layered drawing. A line that passes rows gets a waypoint in each of them. Waypoints are
ordered by their neighbours' means, and then swapped while this removes crossings. Then they move towards their
neighbours as far as the order and the widths allow. Lines from one source share waypoints, so that they form a trunk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

#: between neighbours of a row; where one of them is a passing line
NODE_SPACE, LINE_SPACE = 18.0, 14.0
#: between rows
ROW_SPACE = 34.0
ORDER_SWEEPS, MOVE_SWEEPS = 24, 80
#: a passing line is kept straight before a node is centred
LINE_WEIGHT = 60.0
#: between the ends of lines at one side of a node, at most
PORT_STEP = 26.0

Point = tuple[float, float]
Segment = tuple[str, str]


class Box(NamedTuple):
    """A node's rectangle; x and y are its upper left corner."""

    x: float
    y: float
    width: float
    height: float


class Picture(NamedTuple):
    """The whole picture; `lines` has the points of each link, in pairs: from one row's edge to the next row's edge."""

    width: float
    height: float
    boxes: dict[str, Box]
    lines: tuple[tuple[Point, ...], ...]


def arrange(
    rows: Sequence[Sequence[str]], links: Sequence[Segment], sizes: Mapping[str, tuple[float, float]]
) -> Picture:
    """Arrange the nodes of `rows`, (width, height) each in `sizes`, and draw `links` from source to target."""
    grid = _Grid(rows, links, sizes)
    grid.order()
    grid.move()
    return grid.picture()


class _Grid:
    def __init__(
        self, rows: Sequence[Sequence[str]], links: Sequence[Segment], sizes: Mapping[str, tuple[float, float]]
    ) -> None:
        self._rows = [list(row) for row in rows]
        self._row_of = {node: number for number, row in enumerate(rows) for node in row}
        self._sizes = sizes
        self._chains = [self._chain(*link) for link in links]
        steps = {self._downwards(step) for chain in self._chains for step in pairwise(chain)}
        self._below: dict[str, list[str]] = defaultdict(list)
        self._above: dict[str, list[str]] = defaultdict(list)
        for upper, lower in sorted(steps):
            self._below[upper].append(lower)
            self._above[lower].append(upper)
        self._x: dict[str, float] = {}

    def _chain(self, source: str, target: str) -> list[str]:
        """The link's nodes, with a waypoint in each row between."""
        first, last = self._row_of[source], self._row_of[target]
        step = 1 if last > first else -1
        passed = [self._passing(source, row, step) for row in range(first + step, last, step)]
        return [source, *passed, target]

    def _passing(self, source: str, row: int, step: int) -> str:
        waypoint = f"{source} {step} {row}"
        if waypoint not in self._row_of:
            self._row_of[waypoint] = row
            self._rows[row].append(waypoint)
        return waypoint

    def _downwards(self, step: Segment) -> Segment:
        first, second = step
        return (first, second) if self._row_of[first] < self._row_of[second] else (second, first)

    # -- order

    def order(self) -> None:
        best, fewest = self._copy(), self._all_crossings()
        for sweep in range(ORDER_SWEEPS):
            self._sort_by_neighbours(self._above if sweep % 2 == 0 else self._below, is_down=sweep % 2 == 0)
            self._swap_neighbours()
            if (crossings := self._all_crossings()) < fewest:
                best, fewest = self._copy(), crossings
        self._rows = best

    def _copy(self) -> list[list[str]]:
        return [list(row) for row in self._rows]

    def _positions(self) -> dict[str, int]:
        return {node: position for row in self._rows for position, node in enumerate(row)}

    def _sort_by_neighbours(self, neighbours: Mapping[str, list[str]], *, is_down: bool) -> None:
        for row in self._rows if is_down else reversed(self._rows):
            positions = self._positions()
            row.sort(
                key=lambda node: _mean([float(positions[n]) for n in neighbours.get(node, [])], float(positions[node]))
            )

    def _swap_neighbours(self) -> None:
        for row in self._rows:
            for at in range(len(row) - 1):
                positions = self._positions()
                left, right = row[at], row[at + 1]
                if self._pair_crossings(right, left, positions) < self._pair_crossings(left, right, positions):
                    row[at], row[at + 1] = right, left

    def _pair_crossings(self, left: str, right: str, positions: Mapping[str, int]) -> int:
        """Crossings between the lines of two neighbours, if they stood in this order."""
        return sum(
            positions[a] > positions[b]
            for side in (self._above, self._below)
            for a in side.get(left, [])
            for b in side.get(right, [])
        )

    def _all_crossings(self) -> int:
        positions = self._positions()
        return sum(
            positions[a] > positions[b]
            for row in self._rows
            for at, left in enumerate(row)
            for right in row[at + 1 :]
            for a in self._below.get(left, [])
            for b in self._below.get(right, [])
        )

    # -- x

    def _size(self, node: str) -> tuple[float, float]:
        return self._sizes.get(node, (0.0, 0.0))

    def move(self) -> None:
        """Start packed to the left; then each row moves towards the rows around it, in turn."""
        for row in self._rows:
            for at, node in enumerate(row):
                self._x[node] = self._offsets(row)[at]
        for _ in range(MOVE_SWEEPS):
            for row in (*self._rows, *reversed(self._rows)):
                self._move(row)

    def _move(self, row: Sequence[str]) -> None:
        offsets = self._offsets(row)
        wanted = [self._wanted(node) - offset for node, offset in zip(row, offsets, strict=True)]
        weights = [1.0 if node in self._sizes else LINE_WEIGHT for node in row]
        for node, offset, x in zip(row, offsets, _ascending(wanted, weights), strict=True):
            self._x[node] = x + offset

    def _wanted(self, node: str) -> float:
        """The mean of its neighbours; for a passing line, of the line's other waypoints first."""
        around = [*self._above.get(node, []), *self._below.get(node, [])]
        if node not in self._sizes:
            around = [other for other in around if other not in self._sizes] or around
        return _mean([self._x[other] for other in around], self._x[node])

    def _offsets(self, row: Sequence[str]) -> list[float]:
        """The least distance of each node's centre to the right of the first node's centre."""
        offsets = [0.0]
        for left, right in pairwise(row):
            space = NODE_SPACE if left in self._sizes and right in self._sizes else LINE_SPACE
            offsets.append(offsets[-1] + (self._size(left)[0] + self._size(right)[0]) / 2 + space)
        return offsets[: len(row)]

    # -- the picture

    def picture(self) -> Picture:
        left = min(self._x[node] - self._size(node)[0] / 2 for node in self._x)
        right = max(self._x[node] + self._size(node)[0] / 2 for node in self._x)
        heights = [max(self._size(node)[1] for node in row) if row else 0.0 for row in self._rows]
        spaces = [ROW_SPACE if row else 0.0 for row in self._rows]
        tops = [sum(heights[:number]) + sum(spaces[:number]) for number in range(len(heights))]
        boxes = {}
        for node, x in self._x.items():
            row, (width, height) = self._row_of[node], self._size(node)
            height = height if node in self._sizes else heights[row]
            y = tops[row] + (heights[row] - height) / 2
            boxes[node] = Box(x - left - width / 2, y, width, height)
        lines = tuple(self._line(chain, boxes) for chain in self._chains)
        nodes = {node: box for node, box in boxes.items() if node in self._sizes}
        return Picture(right - left, tops[-1] + heights[-1], nodes, lines)

    def _line(self, chain: Sequence[str], boxes: Mapping[str, Box]) -> tuple[Point, ...]:
        points: list[Point] = []
        for step in pairwise(chain):
            upper, lower = self._downwards(step)
            ends = [self._port(upper, lower, self._below, boxes), self._port(lower, upper, self._above, boxes)]
            points += ends if step == (upper, lower) else reversed(ends)
        return tuple(points)

    def _port(self, node: str, other: str, side: Mapping[str, list[str]], boxes: Mapping[str, Box]) -> Point:
        """Where the line to `other` meets the node: lines are spread along a side in their neighbours' order."""
        box = boxes[node]
        neighbours = sorted(side[node], key=lambda each: boxes[each].x + boxes[each].width / 2)
        step = min(PORT_STEP, 0.8 * box.width / len(neighbours))
        shift = step * (neighbours.index(other) - (len(neighbours) - 1) / 2)
        return box.x + box.width / 2 + shift, box.y + (box.height if side is self._below else 0.0)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _ascending(wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The numbers nearest to `wanted`, in weighted least squares, that never fall: pooled adjacent violators."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(wanted, weights, strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, a_weight, a_count), (b, b_weight, b_count) = pools[-2:]
            total = a_weight + b_weight
            pools[-2:] = [((a * a_weight + b * b_weight) / total, total, a_count + b_count)]
    return [value for value, _, count in pools for _ in range(count)]
