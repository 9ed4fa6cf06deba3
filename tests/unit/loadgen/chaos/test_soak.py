"""The acts of a soak, what it watches, and a soak of parts in a world whose clock is a number."""

from itertools import islice

import numpy as np
import pytest

from loadgen.chaos.listener import Arrival, HeardAnswers
from loadgen.chaos.soak import Soak, SoakOutcome, SoakRules, markdown
from loadgen.chaos.soak_plan import Act, SoakLimits, SoakSetup, acts
from loadgen.chaos.soak_session import recomputed
from loadgen.chaos.ties import TiedJoin, TiedRows
from loadgen.chaos.watch import PART_SAMPLES_MIN, PARTS, DiskWatch, MemoryWatch


def test_the_same_seed_gives_the_same_acts():
    one, again, other = (list(islice(acts(seed, list(Act), SoakLimits(3), 5.0), 200)) for seed in (1, 1, 2))
    assert one == again != other
    assert {planned.act for planned in one} == set(Act)
    assert {planned.setup.intakes for planned in one} == {0, 1, 2}


def test_several_sinks_have_processes_of_their_own():
    moves = islice(acts(1, [Act.MOVE], SoakLimits(2, sinks=2), 5.0), 50)
    assert {planned.setup.packing for planned in moves} == {"apart", "answerer"}


def test_memory_is_compared_by_setup_with_its_own_first_tenth():
    watch = MemoryWatch()
    for number in range(PARTS * PART_SAMPLES_MIN):
        watch.sample("flat", {"a": 100, "b": 101})
        watch.sample("growing", {"a": 100 + number})
    watch.sample("short", {"a": 1})
    growth = watch.growth()
    assert growth["flat"].share == 0
    assert growth["growing"].share == pytest.approx(45 / 102)
    assert growth["short"].share is None
    assert [growth[setup].is_bounded for setup in ("flat", "growing", "short")] == [True, False, True]
    assert watch.peaks == {"a": 149, "b": 101}


def test_wrong_counts_are_found_as_they_come():
    join = TiedJoin("t", window=100, slide=10, seed=5)
    seqs = np.arange(350, 420)
    as_left, as_right = TiedRows(join, join.stream(), 0, 420).counts(seqs)
    judge = recomputed(join)
    assert not judge(HeardAnswers(seqs, as_left, as_right)).any()
    as_right[7] += 1
    assert np.flatnonzero(judge(HeardAnswers(seqs, as_left, as_right))).tolist() == [7]


class Parts:
    """Services, and the flow through them: 100 rows a second, answered at once until an end. Acts do nothing."""

    def __init__(self, ends_at_s=1e9):
        self.driver, self.setup, self.workers, self.now_s, self.arrivals = self, SoakSetup(), 1, 0.0, []
        self._ends_at_s = ends_at_s

    def __getattr__(self, _act):
        return lambda *_: None

    def clock(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds
        if self.now_s < self._ends_at_s:
            self.arrivals.append(Arrival(self.now_s, self.rows))

    @property
    def rows(self):
        return int(100 * self.now_s)

    messages = rows

    @property
    def answered(self):
        return self.arrivals[-1].tuples if self.arrivals else 0

    def start(self, setup):
        self.setup = setup

    def targets(self):
        return ["router", "sink"]

    def is_settled(self):
        return True

    def rescale(self, workers):
        self.workers = workers

    def memory(self):
        return {"router": 10 << 20, "sink": 20 << 20}

    def disk(self):
        return {"frames-0": 1_000}


def soaked(parts, lasts_s=2_000.0):
    rules = SoakRules(lasts_s, stall_s=60.0, rate=100.0)
    soak = Soak(
        parts, parts, rules, MemoryWatch(), DiskWatch(10_000, {}), lambda _: None, clock=parts.clock, sleep=parts.sleep
    )
    soak.run(acts(1, list(Act), SoakLimits(3), 5.0))
    return soak


def outcome_of(soak, parts, **changed):
    given = {
        "about": {"seed": 1}, "done": soak.done, "arrivals": parts.arrivals, "rows": parts.answered, "wrong": 0,
        "differences": [], "growth": soak.memory.growth(), "peaks": soak.memory.peaks, "disk": soak.disk,
        "stuck": soak.stuck,
    }  # fmt: skip
    return SoakOutcome(**(given | changed))


def test_a_soak_does_everything():
    parts = Parts()
    soak = soaked(parts)
    assert {done.planned.act for done in soak.done} == set(Act)
    outcome = outcome_of(soak, parts)
    assert outcome.is_passed, outcome.failures


def test_services_that_say_nothing_more_are_stuck():
    parts = Parts(ends_at_s=300.0)
    soak = soaked(parts)
    assert soak.stuck
    assert parts.now_s < 400
    assert "FAILED: no" in markdown(outcome_of(soak, parts))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rows": 10**9}, "rows have no result"),
        ({"wrong": 2}, "2 tuples differ"),
        ({"differences": ["results are missing"]}, "results are missing"),
        ({"disk": DiskWatch(1, {}, {"frames-0": 3 << 20}, [3 << 20])}, "frames-0 took 3 MiB"),
    ],
)
def test_whatever_is_wrong_fails_a_soak(changed, said):
    parts = Parts()
    outcome = outcome_of(soaked(parts, 100.0), parts, **changed)
    assert not outcome.is_passed
    assert said in markdown(outcome)
