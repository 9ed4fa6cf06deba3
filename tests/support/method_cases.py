"""Random stored tuples and probes for a method's side, and a plain loop's findings."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import strategies as st

from loadgen.papers.methods.side import Check, Found, Searches, SideSpec
from loadgen.window import window_begin
from spojoin.windows import RowWindow


@dataclasses.dataclass
class Case:
    """A stream of stored tuples and probes, cut into chunks."""

    spec: SideSpec
    codes: np.ndarray
    probes: list[tuple[np.ndarray, np.ndarray]]
    lower: np.ndarray
    upper: np.ndarray
    cuts: list[int]


@st.composite
def cases(draw):
    columns, n = draw(st.integers(1, 3)), draw(st.integers(0, 120))
    domain = st.integers(-draw(st.sampled_from([0, 1, 3, 50])), 3)
    codes = np.array(draw(st.lists(st.lists(domain, min_size=n, max_size=n), min_size=columns, max_size=columns)))
    directions = tuple(
        tuple(
            Check(draw(st.integers(0, columns - 1)), draw(st.booleans()), equality=draw(st.booleans()))
            for _ in range(draw(st.integers(1, 3)))
        )
        for _ in range(draw(st.integers(1, 2)))
    )
    length, slide = draw(st.sampled_from([(1, 1), (4, 2), (16, 4), (30, 30), (200, 50)]))
    upper = np.array(sorted(draw(st.lists(st.integers(0, n), max_size=60))), np.int64)
    lower = np.maximum(window_begin(upper, length, slide), 0)
    ends = st.integers(-52, 4) | st.sampled_from([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    probes = [tuple(_bounds(draw, tests, len(upper), ends)) for tests in directions]
    cuts = sorted(draw(st.lists(st.integers(0, n), max_size=6)))
    spec = SideSpec(columns, directions, RowWindow(length, slide), draw(st.booleans()))
    return Case(spec, codes.reshape(columns, n).astype(np.int64), probes, np.minimum(lower, upper), upper, cuts)


def _bounds(draw, tests, m, ends):
    lo = np.array([[draw(ends) for _ in range(m)] for _ in tests], np.int64).reshape(len(tests), m)
    hi = np.array([[draw(ends) for _ in range(m)] for _ in tests], np.int64).reshape(len(tests), m)
    for k, test in enumerate(tests):
        if test.equality:
            hi[k] = lo[k]
    return lo, hi


def looped(case, direction, probe):
    """Indexes of the stored tuples that a probe finds, by the definition."""
    lo, hi = case.probes[direction]
    found = []
    for index in range(case.lower[probe], case.upper[probe]):
        holds = (
            (lo[k, probe] <= case.codes[test.column, index] <= hi[k, probe]) != test.negated
            for k, test in enumerate(case.spec.directions[direction])
        )
        if all(holds):
            found.append(index)
    return found


def expected(case):
    """By direction and probe, the partners, or their number if no lists are requested."""
    found = [
        [looped(case, direction, i) for i in range(len(case.upper))] for direction in range(len(case.spec.directions))
    ]
    return found if case.spec.lists else [[len(partners) for partners in direction] for direction in found]


def taken(side, case):
    """The partners of each probe by direction, taken chunk by chunk."""
    by_role = [[] for _ in case.spec.directions]
    stored = done = 0
    for cut in [*case.cuts, case.codes.shape[1]]:
        # A chunk ends between tuples: its probes precede everything stored after it.
        end = int(np.searchsorted(case.upper, cut, "right"))
        directions = [Searches(lo[:, done:end], hi[:, done:end]) for lo, hi in case.probes]
        found = side.take(case.codes[:, stored:cut], directions, case.lower[done:end], case.upper[done:end])
        for direction, each in enumerate(found):
            by_role[direction] += listed(each)
        stored, done = cut, end
    return by_role


def listed(found: Found):
    if found.partners is None:
        return found.counts.tolist()
    parts = np.split(found.partners, found.offsets[1:-1]) if len(found.counts) else []
    assert [len(part) for part in parts] == found.counts.tolist()
    return [part.tolist() for part in parts]
