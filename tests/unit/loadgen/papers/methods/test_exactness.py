"""Every search method against the naive oracle: on the simulator's seeds, and side by side with a plain loop."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given

from loadgen.papers.methods.catalog import METHODS
from loadgen.papers.methods.machine import SIDES
from loadgen.papers.methods.side import Check, Searches, SideSpec
from loadgen.simulate.papers import run_method
from loadgen.simulate.scenario import draw
from loadgen.window import window_begin
from spojoin.errors import ConfigurationError
from spojoin.evaluation.choices import method
from spojoin.model import DEFAULT_METHOD, Op
from spojoin.windows import RowWindow
from tests.support.method_cases import cases, expected, taken

SEEDS = 20
NAMES = sorted(SIDES)


def test_methods_and_descriptions_match():
    assert {DEFAULT_METHOD, *SIDES} == METHODS.keys()
    assert all(about.cites and about.about for about in METHODS.values())


@pytest.mark.parametrize("name", NAMES)
def test_the_simulators_seeds_give_the_oracles_results(name):
    def fits(query):  # a hash searches by an equality
        return name != "hash" or any(each.op is Op.EQ for each in query.predicates)

    for seed in [seed for seed in range(1_000) if fits(draw(seed).query)][:SEEDS]:
        failure = run_method(seed, method(name, {}))
        assert failure is None, failure.account


# --- a side beside a plain loop ---------------------------------------------------------------------------------------


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
    spec = SideSpec(1, ((Check(0, False, True),),), RowWindow(length, slide), False, dict(method(name, {}).options))
    side = SIDES[name](spec)
    rng = np.random.default_rng(1)
    held, room = [], []
    for first in range(0, 60 * chunk, chunk):
        codes = rng.integers(0, 50, (1, chunk))
        upper = np.arange(first, first + chunk)
        lower = np.maximum(window_begin(upper, length, slide), 0)
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
