"""Every method of search against the naive oracle: on the simulator's seeds, and side by side with a plain loop."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.errors import ConfigurationError
from spojoin.model import DEFAULT_METHOD
from spojoin.published.methods.catalog import METHODS, method
from spojoin.published.methods.registry import SIDES
from spojoin.published.methods.side import Check, Found, Searches, SideSpec
from spojoin.simulate.method import run_method

SEEDS = range(150)
NAMES = sorted(SIDES)


def test_every_method_is_described_and_every_description_has_a_method():
    assert {DEFAULT_METHOD, *SIDES} == METHODS.keys()
    assert all(about.cites and about.about for about in METHODS.values())


@pytest.mark.parametrize("name", NAMES)
def test_the_simulators_seeds_give_what_the_oracle_gives(name):
    refused = 0
    for seed in SEEDS:
        failure = run_method(seed, method(name, {}))
        if failure is not None and ConfigurationError.__name__ in failure.reason:
            refused += 1  # a method for equality alone says so
            continue
        assert failure is None, failure.account
    assert refused < len(SEEDS) - 10


# --- a side beside a plain loop ---------------------------------------------------------------------------------------


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
    lower = np.maximum(-(-upper // slide) * slide - length, 0)
    ends = st.integers(-52, 4) | st.sampled_from([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    probes = [tuple(_bounds(draw, tests, len(upper), ends)) for tests in directions]
    cuts = sorted(draw(st.lists(st.integers(0, n), max_size=6)))
    spec = SideSpec(columns, directions, False, length, slide, draw(st.booleans()))
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
    """By direction and probe: partners, or how many they are where lists aren't asked for."""
    found = [
        [looped(case, direction, i) for i in range(len(case.upper))] for direction in range(len(case.spec.directions))
    ]
    return found if case.spec.lists else [[len(partners) for partners in direction] for direction in found]


def taken(side, case):
    """The partners of each probe by direction, taken chunk by chunk."""
    by_role = [[] for _ in case.spec.directions]
    stored = done = 0
    for cut in [*case.cuts, case.codes.shape[1]]:
        # A chunk ends between tuples: its probes come before whatever is stored after it.
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


@pytest.mark.parametrize("name", NAMES)
@given(case=cases())
def test_a_side_finds_what_a_plain_loop_finds(name, case):
    options = dict(method(name, {}).options)
    try:
        side = SIDES[name](dataclasses.replace(case.spec, options=options))
    except ConfigurationError:
        return
    assert taken(side, case) == expected(case)


@pytest.mark.parametrize("name", NAMES)
def test_memory_follows_the_window_and_not_the_stream(name):
    length, slide, chunk = 400, 100, 64
    spec = SideSpec(1, ((Check(0, False, True),),), False, length, slide, False, dict(method(name, {}).options))
    side = SIDES[name](spec)
    rng = np.random.default_rng(1)
    held, room = [], []
    for first in range(0, 60 * chunk, chunk):
        codes = rng.integers(0, 50, (1, chunk))
        upper = np.arange(first, first + chunk)
        lower = np.maximum(-(-upper // slide) * slide - length, 0)
        side.take(codes, [Searches(codes, codes)], lower, upper)
        held.append(side.tuples)
        room.append(side.nbytes)
    assert max(held) <= 3 * (length + slide + chunk)
    assert max(room[30:]) <= 2 * max(room[:30])


class Forgetful:
    """A method that loses the last partner of each probe that has any."""

    def __init__(self, spec):
        self.side = SIDES["scan"](spec)

    def __getattr__(self, name):
        return getattr(self.side, name)

    def take(self, *arguments):
        return [dataclasses.replace(f, counts=np.maximum(f.counts - 1, 0)) for f in self.side.take(*arguments)]


def test_a_method_that_loses_a_match_is_found(monkeypatch):
    monkeypatch.setitem(SIDES, "scan", Forgetful)
    assert any(run_method(seed, method("scan", {})) for seed in range(20))
