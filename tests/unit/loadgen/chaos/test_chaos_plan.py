"""The schedule depends only on seed, targets, kinds and timing."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.chaos.plan import SERVICE_KINDS, FaultKind, Timing, plan
from spojoin.errors import ConfigurationError

TARGETS = ("router", "mutable-0", "mutable-1", "pojoin-0", "sink")
ALL = tuple(FaultKind)


def test_the_same_seed_is_the_same_campaign():
    timing = Timing(600)
    assert plan(7, TARGETS, ALL, timing) == plan(7, TARGETS, ALL, timing)
    assert plan(7, TARGETS, ALL, timing) != plan(8, TARGETS, ALL, timing)


@given(st.integers(0, 1_000))
def test_each_round_strikes_every_target_once_and_kinds_evenly(seed):
    faults = plan(seed, TARGETS, ALL, Timing(5_000, 5.0))
    for at in range(0, len(faults) - 6, 7):
        assert Counter(fault.target for fault in faults[at : at + 7]) == Counter([*TARGETS, "broker", "redis"])
    rounds = len(faults) // 7
    dealt = Counter(fault.kind for fault in faults[: 7 * rounds] if fault.kind in SERVICE_KINDS)
    assert max(dealt.values()) - min(dealt.values()) <= 2


@pytest.mark.parametrize(("targets", "kinds"), [((), (FaultKind.KILL,)), (TARGETS, ())])
def test_a_campaign_without_faults_is_refused(targets, kinds):
    with pytest.raises(ConfigurationError, match="--kinds"):
        plan(1, targets, kinds, Timing(60))
