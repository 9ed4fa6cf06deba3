"""SPO-Join's state schemes and its AND as options of the method: their answers and errors against plain loops."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from loadgen.papers.methods.side import Check, Searches, SideSpec
from loadgen.papers.methods.spo_paper import SpoPaper
from loadgen.papers.schemes.logical_and import NONE, LogicalAnd, Meeting, OperatorLoad
from loadgen.papers.schemes.spo_paper_unsafe import setup_of, side_of, simulated
from loadgen.papers.schemes.state import Scheme, SimulatedWorkers
from loadgen.window import window_begin, window_of
from spojoin.errors import ConfigurationError
from spojoin.ports.memory import MemoryStore
from spojoin.windows import RowWindow, TimeWindow

LENGTH, SLIDE, COUNT = 240, 60, 700
DIRECTIONS = ((Check(0, False, False), Check(1, False, False)), (Check(1, True, True), Check(0, False, False)))
UNSAFE = [scheme for scheme in Scheme if scheme is not Scheme.EXACT]
FAST = {"rate": "1000000", "hop_ms": "0.1", "service_ms": "0.01", "workers": "3"}


def spec(**options):
    base = SideSpec(2, DIRECTIONS, RowWindow(LENGTH, SLIDE), False)
    return dataclasses.replace(base, options=dict(simulated({**FAST, **options}).options))


def data():
    rng = np.random.default_rng(3)
    codes, lo = rng.integers(0, 9, (2, COUNT)), rng.integers(-1, 9, (2, 2, COUNT))
    hi = lo + rng.integers(0, 5, (2, 2, COUNT))
    hi[1, 0] = lo[1, 0]
    return codes, lo, hi


DATA = data()


def counts_of(asked, cuts=(0, 1, 130, 500, COUNT)):
    """Counts of both directions, int64 (2, COUNT), taken chunk by chunk, and the side's counters."""
    side = side_of(asked)
    codes, lo, hi = DATA
    upper = np.arange(COUNT)
    lower = np.maximum(window_begin(upper, LENGTH, SLIDE), 0)
    found = []
    for begin, end in pairwise(cuts):
        directions = [Searches(lo[r][:, begin:end], hi[r][:, begin:end]) for r in range(2)]
        taken = side.take(codes[:, begin:end], directions, lower[begin:end], upper[begin:end])
        found.append(np.stack([each.counts for each in taken]))
    return np.concatenate(found, axis=1), side.counters.as_dict()


def holds(direction, sources, i):
    """Whether tuple i meets the bounds of the direction, each test's from its own source."""
    codes, lo, hi = DATA
    return all(
        (lo[direction, k, source] <= codes[test.column, i] <= hi[direction, k, source]) != test.negated
        for k, (test, source) in enumerate(zip(DIRECTIONS[direction], sources, strict=True))
    )


def by_a_loop(asked, trace, sources):
    """Counts, false positives and false negatives, pair by pair."""
    setup = setup_of(asked)
    counts, positives, negatives = np.zeros((2, COUNT), int), 0, 0
    for direction in range(2):
        for probe in range(COUNT):
            lower = window_of(probe, LENGTH, SLIDE).start
            met = sources[direction][:, probe].tolist()
            starts = [source // setup.delta * setup.delta for source in met]
            for i in range(probe):
                batch, is_true = i // setup.delta, holds(direction, (probe, probe), i)
                worker, end = batch % setup.workers, (batch + 1) * setup.delta
                is_held = trace.lower[worker, probe] < end <= trace.upper[worker, probe]
                times = int(is_true and is_held)
                if NONE not in met and max(starts) <= i < min(met):
                    times += holds(direction, met, i)
                is_due = is_true and i >= lower
                counts[direction, probe] += times
                positives += max(times - is_due, 0)
                negatives += is_due and not times
    return counts, positives, negatives


def themselves():
    return [np.tile(np.arange(COUNT), (2, 1))] * 2


@pytest.mark.parametrize("scheme", UNSAFE)
def test_a_scheme_answers_from_what_its_workers_hold(scheme):
    asked = spec(state=scheme)
    counts, reported = counts_of(asked)
    trace = SimulatedWorkers(setup_of(asked), scheme, MemoryStore()).take(COUNT)
    wanted, positives, negatives = by_a_loop(asked, trace, themselves())
    assert (counts == wanted).all()
    assert (reported["false_positives"], reported["false_negatives"]) == (positives, negatives)
    assert positives + negatives > 0


@pytest.mark.parametrize("cuts", [(0, COUNT), (0, 1, 3, 200, 201, 600, COUNT)])
def test_without_a_hash_table_bit_arrays_of_other_tuples_are_met(cuts):
    asked = spec(logical_and="overwriting_unsafe")
    setup = setup_of(asked)
    counts, reported = counts_of(asked, cuts)
    ands = [LogicalAnd(Meeting.OVERWRITING_UNSAFE, OperatorLoad(1e6, (0.01, 0.01), 3, 0.1)) for _ in range(2)]
    sources = [np.concatenate([a.meet(b, e - b) for b, e in pairwise(cuts)], axis=1) for a in ands]
    trace = SimulatedWorkers(setup, Scheme.EXACT, MemoryStore()).take(COUNT)
    wanted, positives, negatives = by_a_loop(asked, trace, sources)
    assert (counts == wanted).all()
    assert (reported["false_positives"], reported["false_negatives"]) == (positives, negatives)
    assert reported["unanswered"] == sum(int(np.sum(each[0] == NONE)) for each in sources) > 0
    assert positives > 0


def test_the_exact_scheme_is_the_default_and_the_others_need_count_windows():
    assert type(side_of(spec())) is SpoPaper
    for wrong in ({"window": TimeWindow(LENGTH, SLIDE)}, {"lists": True}):
        with pytest.raises(ConfigurationError, match="output: count"):
            side_of(dataclasses.replace(spec(state="round_robin_unsafe"), **wrong))
    with pytest.raises(ConfigurationError, match="slide is 60; it must be a multiple of 50"):
        side_of(spec(state="size_broadcast_unsafe", delta="50"))
