"""The schedule depends only on seed, targets, kinds and timing."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.chaos.driver import strike
from loadgen.chaos.plan import SERVICE_KINDS, Fault, FaultKind, Timing, plan
from spojoin.errors import ConfigurationError

TARGETS = ("router", "mutable-0", "mutable-1", "pojoin-0", "sink")
ALL = tuple(FaultKind)


def test_the_same_seed_is_the_same_campaign():
    timing = Timing(600)
    assert plan(7, TARGETS, ALL, timing) == plan(7, TARGETS, ALL, timing)
    assert plan(7, TARGETS, ALL, timing) != plan(8, TARGETS, ALL, timing)


def test_a_longer_campaign_begins_like_a_shorter_one():
    short, long = plan(7, TARGETS, ALL, Timing(100)), plan(7, TARGETS, ALL, Timing(300))
    assert len(long) > len(short) > 0
    assert long[: len(short)] == short


@given(st.integers(0, 1_000), st.floats(1, 20), st.floats(30, 2_000))
def test_faults_are_spread_over_the_time_between_settling_and_calm(seed, every_s, duration_s):
    timing = Timing(duration_s, every_s)
    faults = plan(seed, TARGETS, ALL, timing)
    times = [fault.at_s for fault in faults]
    assert all(timing.settle_s <= at <= duration_s - timing.calm_s for at in times)
    assert all(0.5 * every_s - 0.02 <= b - a <= 1.5 * every_s + 0.02 for a, b in pairwise(times))
    for fault in faults:
        is_pause = fault.kind is FaultKind.PAUSE
        assert (0 < fault.lasts_s <= timing.pause_s_max) == is_pause
        assert fault.target in (TARGETS if fault.kind in SERVICE_KINDS else (str(fault.kind),))


@given(st.integers(0, 1_000))
def test_each_round_strikes_every_target_once_and_kinds_evenly(seed):
    faults = plan(seed, TARGETS, ALL, Timing(5_000, 5.0))
    for at in range(0, len(faults) - 6, 7):
        assert Counter(fault.target for fault in faults[at : at + 7]) == Counter([*TARGETS, "broker", "redis"])
    rounds = len(faults) // 7
    dealt = Counter(fault.kind for fault in faults[: 7 * rounds] if fault.kind in SERVICE_KINDS)
    assert max(dealt.values()) - min(dealt.values()) <= 2


def test_only_requested_kinds_happen():
    kinds = {fault.kind for fault in plan(1, TARGETS, (FaultKind.KILL, FaultKind.REDIS), Timing(600))}
    assert kinds == {FaultKind.KILL, FaultKind.REDIS}
    assert {fault.kind for fault in plan(1, TARGETS, (FaultKind.BROKER,), Timing(600))} == {FaultKind.BROKER}


@pytest.mark.parametrize(("targets", "kinds"), [((), (FaultKind.KILL,)), (TARGETS, ())])
def test_a_campaign_without_faults_is_refused(targets, kinds):
    with pytest.raises(ConfigurationError, match="--kinds"):
        plan(1, targets, kinds, Timing(60))


class Place:
    """Records its calls."""

    def __init__(self):
        self.done = []

    def __getattr__(self, name):
        return lambda *target: self.done.append((name, *target))


@pytest.mark.parametrize(
    ("kind", "done"),
    [
        (FaultKind.DELETE, [("delete", "sink")]),
        (FaultKind.KILL, [("kill", "sink")]),
        (FaultKind.PAUSE, [("pause", "sink"), ("wait", 2.0), ("resume", "sink")]),
        (FaultKind.BROKER, [("restart_broker",)]),
        (FaultKind.REDIS, [("flush_redis",)]),
    ],
)
def test_a_fault_calls_its_driver(kind, done):
    place = Place()
    strike(place, Fault(0.0, kind, "sink", 2.0), place.wait)
    assert place.done == done


def test_a_pause_ends_whatever_happens():
    place = Place()

    def interrupted(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        strike(place, Fault(0.0, FaultKind.PAUSE, "sink", 2.0), interrupted)
    assert place.done == [("pause", "sink"), ("resume", "sink")]
